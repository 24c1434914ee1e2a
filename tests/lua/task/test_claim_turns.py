"""Turns between tenants: a million tasks of one do not delay ten of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from rqueue import Lease
from rqueue.maintenance.janitor import Janitor
from tests.harness import Harness, opened
from tests.servers import Server


async def enqueued(
    harness: Harness, key: str, n: int = 1, type: str = "code", **options: Any
) -> None:
    """Enqueues tasks of a tenant."""
    await harness.queue.enqueue_many([{"type": type, "limit_key": key, **options}] * n)


async def claimed(harness: Harness, n: int, worker: str = "w1") -> list[Lease]:
    """The leases of a claim of all types."""
    return await harness.queue.claim(worker=worker, n=n)


def keys(leases: Sequence[Lease]) -> str:
    """The first letters of the tenants of leases, in order."""
    return "".join((lease.task.spec.limit_key or "-")[0] for lease in leases)


async def claimed_letters(harness: Harness, n: int) -> str:
    """The first letters of the tenants that a claim gets."""
    return keys(await claimed(harness, n))


async def test_ten_tasks_behind_thousands_are_served_within_their_turns(harness: Harness) -> None:
    await enqueued(harness, "big", 4000)
    await enqueued(harness, "small", 10)

    found = await claimed_letters(harness, 30)

    assert found == "bs" * 10 + "b" * 10


async def test_a_tenant_has_turns_by_its_weight(server: Server) -> None:
    async with opened(server, turns={"weights": {"small": 3}}) as harness:
        await enqueued(harness, "big", 1000)
        await enqueued(harness, "small", 60)

        found = await claimed_letters(harness, 40)

        assert Counter(found) == {"b": 10, "s": 30}
        # At every step, not only at the end.
        for at in range(4, 41, 4):
            assert Counter(found[:at])["s"] == at // 4 * 3


@pytest.mark.parametrize("weights", [{}, {"a": 3}, {"b": 0.5, "c": 7}])
@pytest.mark.parametrize("enabled", [True, False])
async def test_a_batch_equals_as_many_single_claims(
    server: Server, weights: dict[str, float], enabled: bool
) -> None:
    async with opened(server, turns={"weights": weights, "enabled": enabled}) as harness:
        for key, number in (("a", 30), ("b", 5), ("c", 12)):
            await enqueued(harness, key, number)
        await enqueued(harness, "a", 6, "review", priority=40)
        await enqueued(harness, "b", 6, "review", priority=40)
        await harness.queue.enqueue_many([{"type": "code", "priority": 45}] * 5)
        leases = await claimed(harness, 64)
        assert len(leases) == 64

        # Without virtual times, as after a run of the janitor: for a moment no task is left.
        await harness.client.delete(harness.keys.turned())
        for lease in leases:
            await lease.release()
        singles = []
        while one := await claimed(harness, 1):
            singles += one

        order = [(one.task.type, one.task.spec.limit_key, one.task.spec.priority) for one in leases]
        again = [
            (one.task.type, one.task.spec.limit_key, one.task.spec.priority) for one in singles
        ]
        assert again == order


async def test_a_tenant_that_returns_has_saved_no_turns(harness: Harness) -> None:
    await enqueued(harness, "a", 50)
    await enqueued(harness, "b", 1)
    assert await claimed_letters(harness, 21) == "ab" + "a" * 19

    await enqueued(harness, "b", 5)

    assert Counter(await claimed_letters(harness, 6)) == {"a": 3, "b": 3}


async def test_a_tenant_that_returns_at_once_has_its_share_and_no_more(server: Server) -> None:
    async with opened(server, turns={"weights": {"a": 3}}) as harness:
        await enqueued(harness, "a", 50)
        await enqueued(harness, "b", 1)
        found = ""

        for _ in range(24):
            got = await claimed_letters(harness, 1)
            found += got
            if got == "b":
                await enqueued(harness, "b", 1)

        assert Counter(found) == {"a": 18, "b": 6}


async def test_within_a_tenant_the_best_task_comes_first(harness: Harness) -> None:
    for priority in (70, 30, 50):
        await enqueued(harness, "a", 1, priority=priority)
        await enqueued(harness, "b", 1, priority=priority - 10)

    leases = await claimed(harness, 6)

    by_key = {key: [one.task.spec.priority for one in leases if one.task.spec.limit_key == key]
              for key in "ab"}  # fmt: skip
    assert keys(leases) == "ababab"
    assert all(found == sorted(found) for found in by_key.values())


async def test_without_turns_priority_decides_over_all_tenants(server: Server) -> None:
    async with opened(server, turns={"enabled": False}, priority_boost_per_minute=0) as harness:
        await enqueued(harness, "b", 3, priority=50)
        await enqueued(harness, "a", 3, priority=50)
        await enqueued(harness, "c", 1, priority=40)
        # Among equals the earliest first, whatever its tenant.
        await enqueued(harness, "b", 1, priority=50)

        assert await claimed_letters(harness, 20) == "cbbbaaab"


async def test_a_lane_of_tenants_competes_by_its_next_task(harness: Harness) -> None:
    await enqueued(harness, "a", 1, priority=30)
    await enqueued(harness, "a", 1, priority=70)
    await harness.queue.enqueue_many([{"type": "code", "priority": 50}] * 2)

    assert await claimed_letters(harness, 4) == "a--a"


@pytest.mark.parametrize("way", ["cancel", "pause", "delay", "better"])
async def test_a_task_that_leaves_or_moves_in_its_lane_does_so_in_its_tenant(
    harness: Harness, way: str
) -> None:
    async with harness.queue.dag("graph") as dag:
        dag.add({"type": "code", "limit_key": "a"})
    await enqueued(harness, "a", 1)
    (first,) = [one async for one in harness.queue.find() if one.dag_id == dag.id]
    match way:
        case "cancel":
            await harness.queue.cancel(first.id)
        case "pause":
            await harness.queue.dags.pause(dag.id)
        case "delay":
            await harness.queue.reschedule(first.id, delay=600)
        case _:
            await harness.queue.set_priority(first.id, 99)

    leases = await claimed(harness, 5)

    assert [one.id == first.id for one in leases] == ([False, True] if way == "better" else [False])
    if way == "pause":
        await harness.queue.dags.resume(dag.id)
        assert [one.id for one in await claimed(harness, 5)] == [first.id]


async def test_an_empty_tenant_leaves_no_key(harness: Harness) -> None:
    await enqueued(harness, "a", 3)
    await enqueued(harness, "b", 2)
    for lease in await claimed(harness, 9):
        await lease.start()
        await lease.complete()
    await Janitor(harness.queue._internals.shard).tick()

    left = [
        key.decode().removeprefix(harness.keys.root) for key in await harness.client.keys("rq:*")
    ]

    kinds = {"keyed", "heads", "turns", "turned", "shut", "hand", "full", "lane"}
    assert not [key for key in left if key.partition(":")[0] in kinds]


async def test_every_key_after_a_submit_and_a_claim(harness: Harness) -> None:
    await enqueued(harness, "a", 2)
    await enqueued(harness, "b", 1)
    (a,) = await claimed(harness, 1)
    client, keys = harness.client, harness.keys

    tasks = await client.zrange(keys.lane(-1), 0, -1, withscores=True)
    of_a = await client.zrange(keys.keyed(-1, "a"), 0, -1, withscores=True)
    of_b = await client.zrange(keys.keyed(-1, "b"), 0, -1, withscores=True)
    assert sorted(of_a + of_b) == sorted(tasks)
    assert await client.zrange(keys.heads(-1), 0, -1, withscores=True) == sorted(
        of_a + of_b, key=lambda pair: (pair[1], pair[0])
    )
    assert await client.zrange(keys.turns(-1), 0, -1, withscores=True) == [
        (b"b", 0), (b"a", 2_520_000),
    ]  # fmt: skip
    assert await client.zrange(keys.turned(), 0, -1, withscores=True) == [
        (b"@now", 0), (b"a", 2_520_000),
    ]  # fmt: skip
    assert await client.zrange(keys.hand("a"), 0, -1, withscores=True) == [(a.id.ulid.encode(), -1)]
    assert await client.hget(keys.task(a.id.ulid), "key") == b"a"
    assert not await client.exists(
        keys.closed_tenants(-1), keys.full(), keys.hand("b"), keys.rules()
    )


async def test_a_member_that_is_not_ready_is_never_claimed(harness: Harness) -> None:
    await enqueued(harness, "a", 2)
    (lease,) = await claimed(harness, 1)
    ulid = lease.id.ulid
    await harness.client.zadd(harness.keys.keyed(-1, "a"), {ulid: 0, "GONE": 0})
    await harness.client.zadd(harness.keys.heads(-1), {ulid: 0})
    await harness.client.zadd(harness.keys.turns(-1), {"ghost": 0})

    (other,) = await claimed(harness, 9, "w2")

    assert other.id != lease.id
    await lease.start()
    assert not await harness.client.exists(harness.keys.keyed(-1, "a"), harness.keys.turns(-1))


async def test_an_exclusive_task_with_a_tenant_is_claimed_alone_and_in_its_turn(
    harness: Harness,
) -> None:
    await enqueued(harness, "a", 1, max_attempts=2)
    (lease,) = await claimed(harness, 1)
    await lease.start()
    await harness.age(lease, 60)
    await harness.reaper.tick()
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    await enqueued(harness, "b", 1)

    (other,) = await claimed(harness, 5)
    await other.start()
    await other.complete()
    leases = await claimed(harness, 5)

    assert other.task.spec.limit_key == "b"
    assert [one.id for one in leases] == [lease.id]
    assert await harness.client.zrange(harness.keys.hand("a"), 0, -1) == [lease.id.ulid.encode()]
