"""start: the execution of a claimed task begins."""

from __future__ import annotations

from rqueue.core.leases import HeldLease, Settled, complete, start, validate
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.rows import (
    age_holder,
    claim,
    everything,
    held,
    submitted,
)


async def test_a_claimed_task_runs_and_its_lease_is_renewed(harness: Harness) -> None:
    lease = await held(harness, start=0)
    await age_holder(harness, lease.task, claimed=9000)
    before = await everything(harness)
    (entry,) = before["ready"][0]
    await harness.client.xclaim(
        harness.keys.ready(), "workers", "w1", 0, [entry], idle=9000, justid=True
    )

    assert await start(harness.queue._internals.shard, [lease]) == ["OK"]

    found = await everything(harness)
    task = found[f"task:{lease.task}"]
    claimed, started, owner = task["holder"].split(" ")
    (pending,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    assert 9000 <= int(started) - int(claimed) < 60_000
    assert owner == "w1"
    assert pending["time_since_delivered"] < 9000
    before[f"task:{lease.task}"].update(state="RUNNING", holder=task["holder"])
    before["stats"].update({"1:CLAIMED": "0", "1:RUNNING": "1"})
    assert found == before


async def test_a_repeated_start_is_ok_and_changes_nothing(harness: Harness) -> None:
    lease = await held(harness, start=0)
    await start(harness.queue._internals.shard, [lease])
    before = await harness.dump()

    assert await start(harness.queue._internals.shard, [lease, lease]) == ["OK", "OK"]

    assert await harness.dump() == before


async def test_a_task_claimed_running_is_started_already(harness: Harness) -> None:
    lease = await held(harness, start=1)
    before = await harness.dump()

    assert await start(harness.queue._internals.shard, [lease]) == ["OK"]

    assert await harness.dump() == before


async def test_a_stale_token_starts_nothing(harness: Harness) -> None:
    lease = await held(harness, start=0)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [lease])
    given_back = await harness.dump()

    assert await start(harness.queue._internals.shard, [lease]) == ["LOST"]

    assert await harness.dump() == given_back
    await claim(harness, seq=2, waiter="two", bits="new")
    claimed = await harness.dump()
    others = [lease, HeldLease(lease.task, "2:bits"), HeldLease("NOBODY", "1:bits")]
    assert await start(harness.queue._internals.shard, others) == ["LOST"] * 3
    assert await harness.dump() == claimed


async def test_a_task_that_ended_is_lost(harness: Harness) -> None:
    lease = await held(harness)
    await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    before = await harness.dump()

    assert await start(harness.queue._internals.shard, [lease]) == ["LOST"]

    assert await harness.dump() == before


async def test_a_task_being_validated_does_not_start_again(harness: Harness) -> None:
    lease = await held(harness)
    await validate(harness.queue._internals.shard, [lease])
    before = await harness.dump()

    assert await start(harness.queue._internals.shard, [lease]) == ["STATE:VALIDATING"]

    assert await harness.dump() == before


async def test_a_lost_task_does_not_stop_the_others(harness: Harness) -> None:
    leases = [await held(harness, start=0) for _ in range(2)]

    answer = await start(
        harness.queue._internals.shard, [leases[0], HeldLease("NOBODY", "1:b"), leases[1]]
    )

    found = await everything(harness)
    assert answer == ["OK", "LOST", "OK"]
    assert [found[f"task:{lease.task}"]["state"] for lease in leases] == ["RUNNING"] * 2
    assert found["stats"] == {"submitted": "2", "1:CLAIMED": "0", "1:RUNNING": "2"}


async def test_a_delivered_task_that_starts_is_no_delivery_any_more(harness: Harness) -> None:
    first = await submitted(harness)
    await harness.queue.cancel(f"task_{first}")
    await claim(harness, wait_ms=5000)
    task = await submitted(harness)
    assert f"{task}:1" in (await everything(harness))["handoffs"]

    assert await start(harness.queue._internals.shard, [HeldLease(task, "1:bits")]) == ["OK"]

    assert "handoffs" not in await everything(harness)


async def test_until_start_releases_the_key_once(harness: Harness) -> None:
    more = {"idem": "key", "window": 1000, "unique": "until_start"}
    lease = await held(harness, start=0, more=more)
    await start(harness.queue._internals.shard, [lease])
    assert "idem:key" not in await everything(harness)
    await harness.client.set(harness.keys.idempotency("key"), "another")

    await start(harness.queue._internals.shard, [lease])

    assert (await everything(harness))["idem:key"] == "another"


async def test_until_done_keeps_the_key(harness: Harness) -> None:
    more = {"idem": "key", "window": 1000, "unique": "until_done"}
    lease = await held(harness, start=0, more=more)

    await start(harness.queue._internals.shard, [lease])

    assert (await everything(harness))["idem:key"] == lease.task


async def test_a_missing_group_is_created_again_with_the_lease(harness: Harness) -> None:
    lease = await held(harness, start=0)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")

    assert await start(harness.queue._internals.shard, [lease]) == ["OK"]

    found = await everything(harness)
    assert found["ready"][1] == {found[f"task:{lease.task}"]["entry"]: "w1"}
    assert found[f"task:{lease.task}"]["state"] == "RUNNING"
