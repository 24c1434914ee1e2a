"""validate: the handler returned and its output is being checked."""

from __future__ import annotations

from rqueue.core.leases import HeldLease, Settled, complete, validate
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.rows import age_holder, claim, everything, held


async def test_a_running_task_is_validated_and_keeps_its_lease(harness: Harness) -> None:
    lease = await held(harness)
    before = await everything(harness)

    assert await validate(harness.queue._internals.shard, [lease]) == ["OK"]

    before[f"task:{lease.task}"]["state"] = "VALIDATING"
    before["stats"].update({"1:RUNNING": "0", "1:VALIDATING": "1"})
    assert await everything(harness) == before


async def test_a_repeated_validate_is_ok_and_changes_nothing(harness: Harness) -> None:
    lease = await held(harness)
    await validate(harness.queue._internals.shard, [lease])
    before = await harness.dump()

    assert await validate(harness.queue._internals.shard, [lease, lease]) == ["OK", "OK"]

    assert await harness.dump() == before


async def test_a_prefetched_task_has_begun_by_then(harness: Harness) -> None:
    lease = await held(harness)
    await age_holder(harness, lease.task, claimed=50_000)

    assert await validate(harness.queue._internals.shard, [lease]) == ["OK"]

    claimed, started, owner = (await everything(harness))[f"task:{lease.task}"]["holder"].split()
    assert (int(started) - int(claimed) >= 50_000, owner) == (True, "w1")


async def test_a_task_that_has_not_started_is_not_validated(harness: Harness) -> None:
    lease = await held(harness, start=0)
    before = await harness.dump()

    assert await validate(harness.queue._internals.shard, [lease]) == ["STATE:CLAIMED"]

    assert await harness.dump() == before


async def test_a_stale_token_validates_nothing(harness: Harness) -> None:
    lease = await held(harness)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [lease])
    await claim(harness, waiter="two", consumer="w2", start=1, bits="new")
    before = await harness.dump()

    others = [lease, HeldLease(lease.task, "2:bits"), HeldLease("NOBODY", "1:bits")]
    assert await validate(harness.queue._internals.shard, others) == ["LOST"] * 3

    assert await harness.dump() == before


async def test_a_task_that_ended_is_lost(harness: Harness) -> None:
    lease = await held(harness)
    await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    before = await harness.dump()

    assert await validate(harness.queue._internals.shard, [lease]) == ["LOST"]

    assert await harness.dump() == before


async def test_a_lost_task_does_not_stop_the_others(harness: Harness) -> None:
    leases = [await held(harness) for _ in range(2)]

    answer = await validate(
        harness.queue._internals.shard, [leases[0], HeldLease("NOBODY", "1:b"), leases[1]]
    )

    assert answer == ["OK", "LOST", "OK"]
    assert (await everything(harness))["stats"]["1:VALIDATING"] == "2"
