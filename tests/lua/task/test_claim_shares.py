"""Turns between limit keys over all lanes that a claim looks at: a key has one share, not one of
each type, cost class or lane.
"""

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
# What a task may have that puts it into another lane than a plain one of type `code`.
OTHERWISE: dict[str, dict[str, Any]] = {
    "type": {"type": "review"},
    "cost class": {"estimated_cost_usd": 1.0},
    "agent": {"agent_name": "anna"},
    "capabilities": {"required_capabilities": ["gpu"]},
    "rate": {"priority_boost_per_minute": 3},
}


async def enqueued(harness: Harness, key: str | None, n: int = 1, **options: Any) -> None:
    """Tasks of a key."""
    call = {"type": "code", "limit_key": key, **options}
    for at in range(0, n, 1000):
        await harness.queue.enqueue_many([call] * min(1000, n - at))


async def claimed(harness: Harness, n: int, **offer: Any) -> list[Lease]:
    """What a worker is given that serves everything, unless it is said what."""
    chosen = offer or {"agents": ["anna"], "capabilities": ["gpu"]}
    return await harness.queue.claim(worker="w1", n=n, **chosen)


def keys(leases: Sequence[Lease]) -> str:
    """The first letters of the keys of leases, in their order."""
    return "".join((lease.task.spec.limit_key or "-")[0] for lease in leases)


async def given(harness: Harness, n: int, **offer: Any) -> str:
    """The same of what a claim gives."""
    return keys(await claimed(harness, n, **offer))


@pytest.mark.parametrize("what", OTHERWISE)
async def test_ten_of_another_lane_behind_ten_thousand_older_ones(
    harness: Harness, what: str
) -> None:
    await enqueued(harness, "big", 10_000)
    await enqueued(harness, "small", 10, **OTHERWISE[what])

    found = "".join([await given(harness, 1) for _ in range(20)])

    assert found == "bs" * 10


async def test_those_of_the_one_with_thousands_may_be_more_urgent(harness: Harness) -> None:
    await enqueued(harness, "big", 2000, priority=10)
    await enqueued(harness, "small", 5, type="review", priority=80)
    await enqueued(harness, "small", 5, estimated_cost_usd=1.0, priority=90)

    assert await given(harness, 22) == "bs" * 10 + "bb"


async def test_weights_hold_over_lanes(server: Server) -> None:
    async with opened(server, turns={"weights": {"small": 3}}) as harness:
        await enqueued(harness, "big", 200)
        await enqueued(harness, "small", 30, type="review")
        await enqueued(harness, "small", 30, estimated_cost_usd=1.0)

        found = await given(harness, 20)
        for _ in range(20):
            found += await given(harness, 1)

        # At every moment, not only in the end.
        for at in range(4, 41, 4):
            assert Counter(found[:at])["s"] == at // 4 * 3


async def test_a_key_that_waits_in_two_lanes_has_one_share(harness: Harness) -> None:
    await enqueued(harness, "a", 20)
    await enqueued(harness, "a", 20, type="review")
    await enqueued(harness, "b", 40)

    found = await given(harness, 10)
    for _ in range(10):
        found += await given(harness, 1)

    assert found == "ab" * 10


async def test_of_a_key_with_several_lanes_the_most_urgent_comes_first(harness: Harness) -> None:
    for priority in (30, 60):
        await enqueued(harness, "a", 1, priority=priority)
        await enqueued(harness, "a", 1, type="review", priority=priority + 10)
    await enqueued(harness, "b", 4)

    leases = await claimed(harness, 8)

    assert keys(leases) == "ab" * 4
    of_a = [one.task.spec.priority for one in leases if one.task.spec.limit_key == "a"]
    assert of_a == [30, 40, 60, 70]


async def test_a_key_that_comes_into_another_lane_has_the_turns_it_had(harness: Harness) -> None:
    await enqueued(harness, "a", 50)
    await enqueued(harness, "b", 50)
    found = ""

    for _ in range(20):
        got = await given(harness, 1)
        found += got
        if got == "a":
            # One more of it in a lane of which nothing is left again and again.
            await enqueued(harness, "a", 1, type="review", priority=10)

    assert found == "ab" * 10


async def test_an_urgent_plain_task_is_not_kept_waiting(harness: Harness) -> None:
    await enqueued(harness, "a", 20, priority=40)
    await enqueued(harness, "b", 20, type="review", priority=60)
    await enqueued(harness, None, 2, priority=10)
    await enqueued(harness, None, 2, priority=90)

    assert await given(harness, 44) == "--" + "ab" * 20 + "--"


async def test_the_best_of_all_lanes_lends_its_priority(harness: Harness) -> None:
    await enqueued(harness, "a", 2, priority=60)
    await enqueued(harness, "b", 1, type="review", priority=10)
    await enqueued(harness, None, 2, priority=40)

    # The one of `b` is next after its turn; then only those of `a` are left, behind the plain ones.
    assert await given(harness, 5) == "ab--a"


async def test_a_lane_at_its_limit_leaves_the_turns_to_the_others(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 2}]) as harness:
        await enqueued(harness, "a", 10)
        await enqueued(harness, "b", 6, type="review")

        assert await given(harness, 12) == "abab" + "b" * 4


async def completed(leases: Sequence[Lease]) -> None:
    """Leases end well."""
    for lease in leases:
        await lease.start()
        await lease.complete()


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("limit", [{"at_once": 1}, {"rate": 1, "per_sec": 3600}], ids=str)
async def test_who_waits_at_the_limit_of_a_type_has_its_turn_however_many_are_claimed(
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


async def test_who_waits_for_money_has_its_turn(harness: Harness) -> None:
    await enqueued(harness, "a", 10, estimated_cost_usd=1.0)
    await enqueued(harness, "b", 10, estimated_cost_usd=1.0)
    await enqueued(harness, "c", 100)
    found = ""

    for _ in range(6):
        await harness.queue.budgets.set(0.9)
        assert await given(harness, 3) == "ccc"
        await harness.queue.budgets.set(1.0)
        leases = await claimed(harness, 1)
        found += keys(leases)
        await completed(leases)

    assert found == "ab" * 3


async def test_without_turns_lanes_compete_as_ever(server: Server) -> None:
    async with opened(server, turns={"enabled": False}, priority_boost_per_minute=0) as harness:
        await enqueued(harness, "a", 3, priority=30)
        await enqueued(harness, "b", 3, type="review", priority=50)
        await enqueued(harness, None, 1, priority=40)

        assert await given(harness, 7) == "aaa-bbb"
        assert not await harness.client.exists(harness.keys.turned())


async def test_what_other_workers_give_is_no_matter_of_those_that_may_not(harness: Harness) -> None:
    """A tenant that is served much by one kind of worker is not kept waiting by another kind."""
    await enqueued(harness, "a", 300)
    await enqueued(harness, "b", 20, type="review")
    for _ in range(3):
        await claimed(harness, 100, types=["code"])

    await enqueued(harness, "a", 10, type="review")

    assert Counter(await given(harness, 20, types=["review"])) == {"a": 10, "b": 10}


@pytest.mark.parametrize("weight", [0.5, 1, 3])
async def test_who_could_not_be_served_makes_up_for_little(server: Server, weight: float) -> None:
    async with opened(server, turns={"weights": {"b": weight}}) as harness:
        await enqueued(harness, "a", 600)
        await enqueued(harness, "b", 600, type="review")
        await harness.queue.pause(type="review")
        for _ in range(3):
            assert await given(harness, 100) == "a" * 100
        await harness.queue.resume(type="review")

        found = await given(harness, 100)

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
            found += await given(harness, 1, types=["review"])

        assert 27 <= Counter(found)["b"] <= 33


async def test_what_is_held_back_costs_its_key_no_turn(harness: Harness) -> None:
    async with harness.queue.dag("money", budget_usd=0.5) as dag:
        for _ in range(4):
            dag.add({"type": "code", "limit_key": "a", "estimated_cost_usd": 1.0, "priority": 10})
    await enqueued(harness, "a", 5, type="review")
    await enqueued(harness, "b", 5)

    # None of the DAG's can be paid, which is found when three were picked beside two of `b`.
    assert await given(harness, 5) == "bbaab"


async def test_a_claim_sent_again_changes_nothing(harness: Harness) -> None:
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

    assert await given(harness, 3) == "aba"

    async def scores(key: str) -> dict[bytes, float]:
        return dict(await client.zrange(key, 0, -1, withscores=True))

    assert await scores(names.turned()) == {b"@now": TURN, b"a": 2 * TURN}
    assert await scores(names.turns(-1)) == {b"a": 2 * TURN}
    assert await scores(names.turns(-2)) == {b"a": 2 * TURN, b"b": TURN}
    assert await client.zcard(names.keyed(-1, "a")) + await client.zcard(names.keyed(-2, "a")) == 3
    assert await client.zcard(names.hand("a")) == 2
    assert await client.zcard(names.lane(-1)) + await client.zcard(names.lane(-2)) == 4


async def test_how_far_turns_have_come_goes_when_no_lane_has_anything(harness: Harness) -> None:
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
