"""Turns over all lanes of a claim: a tenant has one share, not one of each type or lane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.claim import WaitingClaim
from rqueue.maintenance.janitor import Janitor
from rqueue.task.lane import Offer
from tests.harness import Harness, opened
from tests.servers import Server

TURN = 2_520_000
# Options that put a task into another lane than a plain one of type `code`.
OTHERWISE: dict[str, dict[str, Any]] = {
    "type": {"type": "review"},
    "cost class": {"estimated_cost_usd": 1.0},
    "agent": {"agent_name": "anna"},
    "capabilities": {"required_capabilities": ["gpu"]},
    "rate": {"priority_boost_per_minute": 3},
}


async def enqueued(harness: Harness, key: str | None, n: int = 1, **options: Any) -> None:
    """Enqueues tasks of a tenant."""
    call = {"type": "code", "limit_key": key, **options}
    for at in range(0, n, 1000):
        await harness.queue.enqueue_many([call] * min(1000, n - at))


async def claimed(harness: Harness, n: int, **offer: Any) -> list[Lease]:
    """The leases of a claim of all types, unless an offer is given."""
    chosen = offer or {"agents": ["anna"], "capabilities": ["gpu"]}
    return await harness.queue.claim(worker="w1", n=n, **chosen)


def keys(leases: Sequence[Lease]) -> str:
    """The first letters of the tenants of leases, in order."""
    return "".join((lease.task.spec.limit_key or "-")[0] for lease in leases)


async def claimed_letters(harness: Harness, n: int, **offer: Any) -> str:
    """The first letters of the tenants that a claim gets."""
    return keys(await claimed(harness, n, **offer))


@pytest.mark.parametrize("what", OTHERWISE)
async def test_ten_tasks_of_another_lane_behind_ten_thousand_older_ones(
    harness: Harness, what: str
) -> None:
    await enqueued(harness, "big", 10_000)
    await enqueued(harness, "small", 10, **OTHERWISE[what])

    found = "".join([await claimed_letters(harness, 1) for _ in range(20)])

    assert found == "bs" * 10


async def test_the_tenant_with_thousands_may_have_more_urgent_tasks(harness: Harness) -> None:
    await enqueued(harness, "big", 2000, priority=10)
    await enqueued(harness, "small", 5, type="review", priority=80)
    await enqueued(harness, "small", 5, estimated_cost_usd=1.0, priority=90)

    assert await claimed_letters(harness, 22) == "bs" * 10 + "bb"


async def test_weights_hold_over_lanes(server: Server) -> None:
    async with opened(server, turns={"weights": {"small": 3}}) as harness:
        await enqueued(harness, "big", 200)
        await enqueued(harness, "small", 30, type="review")
        await enqueued(harness, "small", 30, estimated_cost_usd=1.0)

        found = await claimed_letters(harness, 20)
        for _ in range(20):
            found += await claimed_letters(harness, 1)

        # At every step, not only at the end.
        for at in range(4, 41, 4):
            assert Counter(found[:at])["s"] == at // 4 * 3


async def test_a_tenant_in_two_lanes_has_one_share(harness: Harness) -> None:
    await enqueued(harness, "a", 20)
    await enqueued(harness, "a", 20, type="review")
    await enqueued(harness, "b", 40)

    found = await claimed_letters(harness, 10)
    for _ in range(10):
        found += await claimed_letters(harness, 1)

    assert found == "ab" * 10


async def test_of_a_tenant_with_several_lanes_the_most_urgent_task_comes_first(
    harness: Harness,
) -> None:
    for priority in (30, 60):
        await enqueued(harness, "a", 1, priority=priority)
        await enqueued(harness, "a", 1, type="review", priority=priority + 10)
    await enqueued(harness, "b", 4)

    leases = await claimed(harness, 8)

    assert keys(leases) == "ab" * 4
    of_a = [one.task.spec.priority for one in leases if one.task.spec.limit_key == "a"]
    assert of_a == [30, 40, 60, 70]


async def test_a_tenant_that_enters_another_lane_keeps_its_virtual_time(harness: Harness) -> None:
    await enqueued(harness, "a", 50)
    await enqueued(harness, "b", 50)
    found = ""

    for _ in range(20):
        got = await claimed_letters(harness, 1)
        found += got
        if got == "a":
            # One more task of it in a lane that becomes empty again and again.
            await enqueued(harness, "a", 1, type="review", priority=10)

    assert found == "ab" * 10


async def test_an_urgent_plain_task_is_not_delayed(harness: Harness) -> None:
    await enqueued(harness, "a", 20, priority=40)
    await enqueued(harness, "b", 20, type="review", priority=60)
    await enqueued(harness, None, 2, priority=10)
    await enqueued(harness, None, 2, priority=90)

    assert await claimed_letters(harness, 44) == "--" + "ab" * 20 + "--"


async def test_the_best_of_all_lanes_lends_its_priority(harness: Harness) -> None:
    await enqueued(harness, "a", 2, priority=60)
    await enqueued(harness, "b", 1, type="review", priority=10)
    await enqueued(harness, None, 2, priority=40)

    # The one of `b` is next after its turn; then only those of `a` are left, behind the plain ones.
    assert await claimed_letters(harness, 5) == "ab--a"


async def test_a_lane_at_its_limit_leaves_the_turns_to_the_others(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 2}]) as harness:
        await enqueued(harness, "a", 10)
        await enqueued(harness, "b", 6, type="review")

        assert await claimed_letters(harness, 12) == "abab" + "b" * 4


async def completed(leases: Sequence[Lease]) -> None:
    """Completes leases."""
    for lease in leases:
        await lease.start()
        await lease.complete()


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("limit", [{"at_once": 1}, {"rate": 1, "per_sec": 3600}], ids=str)
async def test_a_tenant_at_the_limit_of_a_type_keeps_its_turn_however_many_are_claimed(
    server: Server, limit: dict[str, int], n: int
) -> None:
    async with opened(server, limits=[{"type": "code", **limit}]) as harness:
        await enqueued(harness, "a", 20)
        await enqueued(harness, "b", 20)
        await enqueued(harness, "c", 200, type="review")
        found = ""

        while len(found) < 12:
            leases = await claimed(harness, n)
            found += keys([lease for lease in leases if lease.task.type == "code"])
            await completed(leases)
            await harness.client.delete(harness.keys.limit("code"))

        assert found == "ab" * 6


async def test_a_tenant_short_of_budget_keeps_its_turn(harness: Harness) -> None:
    await enqueued(harness, "a", 10, estimated_cost_usd=1.0)
    await enqueued(harness, "b", 10, estimated_cost_usd=1.0)
    await enqueued(harness, "c", 100)
    found = ""

    for _ in range(6):
        await harness.queue.budgets.set(0.9)
        assert await claimed_letters(harness, 3) == "ccc"
        await harness.queue.budgets.set(1.0)
        leases = await claimed(harness, 1)
        found += keys(leases)
        await completed(leases)

    assert found == "ab" * 3


async def test_without_turns_lanes_compete_by_priority(server: Server) -> None:
    async with opened(server, turns={"enabled": False}, priority_boost_per_minute=0) as harness:
        await enqueued(harness, "a", 3, priority=30)
        await enqueued(harness, "b", 3, type="review", priority=50)
        await enqueued(harness, None, 1, priority=40)

        assert await claimed_letters(harness, 7) == "aaa-bbb"
        assert not await harness.client.exists(harness.keys.turned())


async def test_tasks_leased_to_other_workers_do_not_affect_lanes_they_do_not_serve(
    harness: Harness,
) -> None:
    """A tenant that one kind of worker serves often is not delayed at another kind."""
    await enqueued(harness, "a", 300)
    await enqueued(harness, "b", 20, type="review")
    for _ in range(3):
        await claimed(harness, 100, types=["code"])

    await enqueued(harness, "a", 10, type="review")

    assert Counter(await claimed_letters(harness, 20, types=["review"])) == {"a": 10, "b": 10}


@pytest.mark.parametrize("weight", [0.5, 1, 3])
async def test_a_tenant_that_could_not_be_served_catches_up_little(
    server: Server, weight: float
) -> None:
    async with opened(server, turns={"weights": {"b": weight}}) as harness:
        await enqueued(harness, "a", 600)
        await enqueued(harness, "b", 600, type="review")
        await harness.queue.pause(type="review")
        for _ in range(3):
            assert await claimed_letters(harness, 100) == "a" * 100
        await harness.queue.resume(type="review")

        found = await claimed_letters(harness, 100)

        share = 100 * weight / (weight + 1)
        assert share - 2 <= Counter(found)["b"] <= share + 6 * weight


async def test_weights_hold_where_others_have_faster_workers(server: Server) -> None:
    async with opened(server, turns={"weights": {"b": 3}}) as harness:
        await enqueued(harness, "a", 1500)
        await enqueued(harness, "b", 100, type="review")
        await enqueued(harness, "c", 100, type="review")
        found = ""

        for _ in range(40):
            await claimed(harness, 30, types=["code"])
            found += await claimed_letters(harness, 1, types=["review"])

        assert 27 <= Counter(found)["b"] <= 33


async def test_a_held_task_costs_its_tenant_no_turn(harness: Harness) -> None:
    async with harness.queue.dag("money", budget_usd=0.5) as dag:
        for _ in range(4):
            dag.add({"type": "code", "limit_key": "a", "estimated_cost_usd": 1.0, "priority": 10})
    await enqueued(harness, "a", 5, type="review")
    await enqueued(harness, "b", 5)

    # The DAG can pay none of its tasks, found after three were picked beside two of `b`.
    assert await claimed_letters(harness, 5) == "bbaab"


async def test_a_repeated_claim_changes_nothing(harness: Harness) -> None:
    await enqueued(harness, "a", 5)
    await enqueued(harness, "b", 5, type="review")
    waiter = WaitingClaim(harness.queue._internals.shard, "w1", Offer.of(), name="w1", lasts=True)
    await waiter.claim(3)
    before = await harness.dump()
    waiter.seq -= 1

    again = await waiter.claim(3)

    assert len(again.grants) == 3
    assert await harness.dump() == before


async def test_every_key_after_claims_over_two_lanes(harness: Harness) -> None:
    await enqueued(harness, "a", 3)
    await enqueued(harness, "a", 2, type="review")
    await enqueued(harness, "b", 2, type="review")
    client, names = harness.client, harness.keys

    assert await claimed_letters(harness, 3) == "aba"

    async def scores(key: str) -> dict[bytes, float]:
        return dict(await client.zrange(key, 0, -1, withscores=True))

    assert await scores(names.turned()) == {b"@now": TURN, b"a": 2 * TURN}
    assert await scores(names.turns(-1)) == {b"a": 2 * TURN}
    assert await scores(names.turns(-2)) == {b"a": 2 * TURN, b"b": TURN}
    assert await client.zcard(names.keyed(-1, "a")) + await client.zcard(names.keyed(-2, "a")) == 3
    assert await client.zcard(names.hand("a")) == 2
    assert await client.zcard(names.lane(-1)) + await client.zcard(names.lane(-2)) == 4


async def test_virtual_times_are_deleted_when_no_lane_has_a_task(harness: Harness) -> None:
    await enqueued(harness, "a", 2)
    await enqueued(harness, "b", 1, type="review")
    janitor = Janitor(harness.queue._internals.shard)
    await claimed(harness, 2)
    await janitor.tick()
    assert await harness.client.exists(harness.keys.turned())
    await claimed(harness, 1)

    cleared = await janitor.tick()

    assert cleared.conversations == 1
    assert not await harness.client.exists(harness.keys.turned())
