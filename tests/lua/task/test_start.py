"""start: the execution of a claimed task begins."""

from __future__ import annotations

from rqueue.store.leases import Held, Settled, complete, start, validate
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import (
    age_holder,
    claim,
    everything,
    held,
    submitted,
)


async def test_a_claimed_task_runs_and_its_lease_is_fresh(house: House) -> None:
    lease = await held(house, start=0)
    await age_holder(house, lease.task, claimed=9000)
    before = await everything(house)
    (entry,) = before["ready"][0]
    await house.client.xclaim(
        house.keys.ready(), "workers", "w1", 0, [entry], idle=9000, justid=True
    )

    assert await start(house.queue.shard, [lease]) == ["OK"]

    found = await everything(house)
    task = found[f"task:{lease.task}"]
    claimed, started, owner = task["holder"].split(" ")
    (pending,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    assert 9000 <= int(started) - int(claimed) < 60_000
    assert owner == "w1"
    assert pending["time_since_delivered"] < 9000
    before[f"task:{lease.task}"].update(state="RUNNING", holder=task["holder"])
    before["stats"].update({"1:CLAIMED": "0", "1:RUNNING": "1"})
    assert found == before


async def test_a_start_sent_again_is_ok_and_changes_nothing(house: House) -> None:
    lease = await held(house, start=0)
    await start(house.queue.shard, [lease])
    before = await house.dump()

    assert await start(house.queue.shard, [lease, lease]) == ["OK", "OK"]

    assert await house.dump() == before


async def test_a_task_claimed_running_is_started_already(house: House) -> None:
    lease = await held(house, start=1)
    before = await house.dump()

    assert await start(house.queue.shard, [lease]) == ["OK"]

    assert await house.dump() == before


async def test_a_stale_token_starts_nothing(house: House) -> None:
    lease = await held(house, start=0)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [lease])
    given_back = await house.dump()

    assert await start(house.queue.shard, [lease]) == ["LOST"]

    assert await house.dump() == given_back
    await claim(house, seq=2, waiter="two", bits="new")
    claimed = await house.dump()
    strangers = [lease, Held(lease.task, "2:bits"), Held("NOBODY", "1:bits")]
    assert await start(house.queue.shard, strangers) == ["LOST"] * 3
    assert await house.dump() == claimed


async def test_a_task_that_ended_is_lost(house: House) -> None:
    lease = await held(house)
    await complete(house.queue.shard, [Settled(*lease, b"")])
    before = await house.dump()

    assert await start(house.queue.shard, [lease]) == ["LOST"]

    assert await house.dump() == before


async def test_a_task_being_validated_does_not_start_again(house: House) -> None:
    lease = await held(house)
    await validate(house.queue.shard, [lease])
    before = await house.dump()

    assert await start(house.queue.shard, [lease]) == ["STATE:VALIDATING"]

    assert await house.dump() == before


async def test_one_that_is_lost_holds_back_no_other(house: House) -> None:
    leases = [await held(house, start=0) for _ in range(2)]

    answer = await start(house.queue.shard, [leases[0], Held("NOBODY", "1:b"), leases[1]])

    found = await everything(house)
    assert answer == ["OK", "LOST", "OK"]
    assert [found[f"task:{lease.task}"]["state"] for lease in leases] == ["RUNNING"] * 2
    assert found["stats"] == {"submitted": "2", "1:CLAIMED": "0", "1:RUNNING": "2"}


async def test_a_mailed_task_that_starts_is_no_hand_off_any_more(house: House) -> None:
    first = await submitted(house)
    await house.queue.cancel(f"task_{first}")
    await claim(house, park_ms=5000)
    task = await submitted(house)
    assert f"{task}:1" in (await everything(house))["handoffs"]

    assert await start(house.queue.shard, [Held(task, "1:bits")]) == ["OK"]

    assert "handoffs" not in await everything(house)


async def test_until_start_frees_the_key_once(house: House) -> None:
    more = {"idem": "key", "window": 1000, "unique": "until_start"}
    lease = await held(house, start=0, more=more)
    await start(house.queue.shard, [lease])
    assert "idem:key" not in await everything(house)
    await house.client.set(house.keys.idempotency("key"), "another")

    await start(house.queue.shard, [lease])

    assert (await everything(house))["idem:key"] == "another"


async def test_until_done_keeps_the_key(house: House) -> None:
    more = {"idem": "key", "window": 1000, "unique": "until_done"}
    lease = await held(house, start=0, more=more)

    await start(house.queue.shard, [lease])

    assert (await everything(house))["idem:key"] == lease.task


async def test_a_missing_group_is_made_again_and_the_lease_is_in_it(house: House) -> None:
    lease = await held(house, start=0)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")

    assert await start(house.queue.shard, [lease]) == ["OK"]

    found = await everything(house)
    assert found["ready"][1] == {found[f"task:{lease.task}"]["entry"]: "w1"}
    assert found[f"task:{lease.task}"]["state"] == "RUNNING"
