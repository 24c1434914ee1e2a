"""A lane of tenants competes with plain tasks by the best first task of tenants with open gates."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.leases import Parked, park
from tests.harness import Harness, opened
from tests.servers import Server

Told = tuple[str, str | None, float]


async def enqueued(harness: Harness, key: str | None, n: int = 1, **options: Any) -> None:
    """Enqueues tasks of a tenant."""
    await harness.queue.enqueue_many([{"type": "code", "limit_key": key, **options}] * n)


async def claimed(harness: Harness, n: int, **offer: Any) -> list[Lease]:
    """The leases of a claim of all types, unless an offer is given."""
    return await harness.queue.claim(worker="w1", n=n, **offer)


def keys(leases: Sequence[Lease]) -> str:
    """The first letters of the tenants of leases, in order."""
    return "".join((lease.task.spec.limit_key or "-")[0] for lease in leases)


async def claimed_letters(harness: Harness, *sizes: int, **offer: Any) -> str:
    """The first letters of the tenants that successive claims get."""
    return "".join([keys(await claimed(harness, n, **offer)) for n in sizes])


SIZES = [(1,) * 10, (2,) * 5, (10,)]


@pytest.mark.parametrize("sizes", SIZES, ids=len)
@pytest.mark.parametrize("limit", [{"at_once": 1}, {"rate": 1, "per_sec": 3600}], ids=str)
async def test_a_full_tenant_lends_nothing(
    server: Server, limit: dict[str, int], sizes: tuple[int, ...]
) -> None:
    async with opened(server, limits=[{"key": "a", **limit}]) as harness:
        await enqueued(harness, "a", 5, priority=10)
        await enqueued(harness, "b", 12, priority=90)
        await enqueued(harness, None, 10, priority=50)

        assert await claimed_letters(harness, *sizes) == "a" + "-" * 9


@pytest.mark.parametrize("sizes", SIZES, ids=len)
async def test_a_full_type_lends_nothing(server: Server, sizes: tuple[int, ...]) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 1}]) as harness:
        await enqueued(harness, "a", 5, priority=10)
        for at in range(12):
            await enqueued(harness, f"b{at}", 2, type="review", priority=90)
        await enqueued(harness, None, 10, type="mail", priority=50)

        assert await claimed_letters(harness, *sizes) == "a" + "-" * 9


@pytest.mark.parametrize("sizes", SIZES, ids=len)
async def test_a_type_filled_by_plain_tasks_lends_nothing(
    server: Server, sizes: tuple[int, ...]
) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 2}]) as harness:
        await enqueued(harness, None, 2, priority=5)
        await enqueued(harness, "z", 5, priority=10)
        await enqueued(harness, "a", 5, type="review", priority=90)
        await enqueued(harness, None, 8, type="mail", priority=50)

        assert await claimed_letters(harness, *sizes) == "-" * 10


async def test_a_tenant_filled_by_other_lanes_lends_nothing(server: Server) -> None:
    async with opened(server, limits=[{"key": "z", "at_once": 1}]) as harness:
        await enqueued(harness, "z", 1, priority=10)
        (lease,) = await claimed(harness, 1, types=["code"])
        for at in range(9):
            await enqueued(harness, f"a{at}", 1, type="review", priority=90)
        await enqueued(harness, "z", 5, type="review", priority=10)
        await enqueued(harness, None, 5, type="review", priority=50)

        assert await claimed_letters(harness, 1, 1, 3, types=["review"]) == "-----"
        # No claim checks it again until its gate opens: then it lends.
        assert await harness.client.zrange(harness.keys.closed_tenants(-2), 0, -1) == [b"z"]
        assert await harness.client.zscore(harness.keys.turns(-2), "z") is None
        await lease.start()
        await lease.complete()
        assert await harness.client.zcard(harness.keys.heads(-2)) == 10
        await enqueued(harness, None, 1, type="review", priority=50)
        assert await claimed_letters(harness, 11, types=["review"]) == "a" * 9 + "z-"


async def test_a_slowed_down_tenant_lends_nothing(harness: Harness) -> None:
    await enqueued(harness, "z", 1, priority=10)
    (lease,) = await claimed(harness, 1)
    await lease.start()
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", 60_000)
    assert await park(harness.queue._internals.shard, [row]) == ["OK"]
    for at in range(9):
        await enqueued(harness, f"a{at}", 1, type="review", priority=90)
    await enqueued(harness, "z", 5, type="review", priority=10)
    await enqueued(harness, None, 5, priority=50)

    assert await claimed_letters(harness, 1, 1, 3) == "-----"


async def test_a_tenant_with_room_lends_until_its_turn(harness: Harness) -> None:
    await enqueued(harness, "a", 9, priority=90)
    await enqueued(harness, "b", 9, type="review", priority=90)
    await enqueued(harness, "z", 1, priority=10)
    await enqueued(harness, None, 5, priority=50)

    assert await claimed_letters(harness, 1, 1, 1, 6, 1) == "abz" + "-----" + "ab"


def facts_of(leases: Sequence[Lease]) -> list[Told]:
    """Type, tenant and priority of leases."""
    return [(one.task.type, one.task.spec.limit_key, one.task.spec.priority) for one in leases]


LIMITS: list[dict[str, Any]] = [
    {"key": "*", "at_once": 3}, {"key": "a", "at_once": 1},
    {"key": "b", "rate": 2, "per_sec": 3600}, {"type": "code", "key": "*", "at_once": 2},
    {"type": "code", "at_once": 5},
    {"type": "review", "rate": 6, "per_sec": 3600}, {"at_once": 25},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
async def test_a_batch_equals_as_many_single_claims_at_any_limits(
    server: Server, seed: int
) -> None:
    random = Random(seed)
    limits = random.sample(LIMITS, random.randint(1, 4))
    weights = random.choice([{}, {"a": 3}, {"c": 0.5}])
    calls = [
        {
            "type": random.choice(["code", "review", "mail"]),
            "limit_key": random.choice(["a", "b", "c", "d", None]),
            "priority": random.choice([10, 30, 50, 70, 90]),
        }
        for _ in range(60)
    ]
    found: list[list[Told]] = []

    for sizes in ([1] * 40, [3] * 14, [40]):
        async with opened(
            server, limits=limits, turns={"weights": weights}, priority_boost_per_minute=0
        ) as harness:
            await harness.client.flushall()
            await harness.queue.enqueue_many(calls)
            leases = [lease for n in sizes for lease in await claimed(harness, n)]
            found.append(facts_of(leases)[:40])

    assert found[1] == found[0]
    assert found[2] == found[0]


async def calls(harness: Harness) -> int:
    """How many commands a claim for one takes."""
    await harness.client.config_resetstat()
    assert await claimed_letters(harness, 1) == "-"
    found = await harness.client.info("commandstats")
    return sum(stats["calls"] for stats in found.values())


async def overtaken(harness: Harness, number: int) -> None:
    """So many tenants at their limit, each with former first tasks; plain tasks are more urgent
    than the open tenants.
    """
    await enqueued(harness, "late", 5, priority=99)
    await enqueued(harness, None, 20, priority=95)
    for priority in (90, 70, 50, 30, 10):
        await harness.queue.enqueue_many(
            [{"type": "code", "limit_key": f"k{n:03}", "priority": priority} for n in range(number)]
        )
    assert keys(await claimed(harness, number)).count("k") == number


async def test_a_claim_costs_the_same_however_many_first_tasks_belong_to_full_tenants(
    valkey: Server,
) -> None:
    async with opened(
        valkey, limits=[{"key": "*", "at_once": 1}], priority_boost_per_minute=0
    ) as harness:
        await overtaken(harness, 5)
        await calls(harness)
        few = await calls(harness)
        await harness.client.flushall()
    async with opened(
        valkey, limits=[{"key": "*", "at_once": 1}], priority_boost_per_minute=0
    ) as harness:
        await overtaken(harness, 200)
        # The first claim removes tasks that are no longer heads.
        await calls(harness)

        assert await calls(harness) == few
        assert await harness.client.zcard(harness.keys.heads(-1)) == 1


async def test_a_claim_removes_a_bounded_number_and_the_next_continues(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.task.limits.MAX_TENANTS", 8)
    async with opened(
        server, limits=[{"key": "*", "at_once": 1}], priority_boost_per_minute=0
    ) as harness:
        await overtaken(harness, 5)
        await enqueued(harness, "urgent", 1, priority=94)
        left = [await harness.client.zcard(harness.keys.heads(-1))]

        found = ""
        for _ in range(2):
            found += await claimed_letters(harness, 1)
            left.append(await harness.client.zcard(harness.keys.heads(-1)))

        # Fifteen that are no heads, and two that are: one of them lends the other its priority.
        assert left == [17, 9, 1]
        assert found == "-l"


async def test_a_skipped_task_is_the_first_of_its_tenant(harness: Harness) -> None:
    cheap, expensive = {"estimated_cost_usd": 0.6}, {"estimated_cost_usd": 1.0}
    await enqueued(harness, "a", 1, priority=20, **expensive)
    await enqueued(harness, "a", 2, priority=30, **cheap)
    await enqueued(harness, "a", 1, priority=10, **cheap)
    _, second, *_ = await harness.client.zrange(harness.keys.keyed(-1, "a"), 0, -1)
    # Another claim has found that it is no longer the first.
    await harness.client.zrem(harness.keys.heads(-1), second)
    await harness.queue.budgets.set(1.3)

    leases = await claimed(harness, 2)

    assert [one.task.spec.priority for one in leases] == [10, 30]
    assert await harness.client.zrange(harness.keys.keyed(-1, "a"), 0, 0) == [second]
    assert await harness.client.zrange(harness.keys.heads(-1), 0, -1) == [second]
