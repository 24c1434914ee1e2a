"""validate: the handler returned and its output is being checked."""

from __future__ import annotations

from rqueue.store.leases import Held, Settled, complete, validate
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import age_holder, claim, everything, held


async def test_a_running_task_is_validated_and_keeps_its_lease(house: House) -> None:
    lease = await held(house)
    before = await everything(house)

    assert await validate(house.queue.shard, [lease]) == ["OK"]

    before[f"task:{lease.task}"]["state"] = "VALIDATING"
    before["stats"].update({"1:RUNNING": "0", "1:VALIDATING": "1"})
    assert await everything(house) == before


async def test_a_validate_sent_again_is_ok_and_changes_nothing(house: House) -> None:
    lease = await held(house)
    await validate(house.queue.shard, [lease])
    before = await house.dump()

    assert await validate(house.queue.shard, [lease, lease]) == ["OK", "OK"]

    assert await house.dump() == before


async def test_one_whose_start_was_not_told_has_begun_by_then(house: House) -> None:
    lease = await held(house)
    await age_holder(house, lease.task, claimed=50_000)

    assert await validate(house.queue.shard, [lease]) == ["OK"]

    claimed, started, owner = (await everything(house))[f"task:{lease.task}"]["holder"].split()
    assert (int(started) - int(claimed) >= 50_000, owner) == (True, "w1")


async def test_a_task_that_has_not_started_is_not_validated(house: House) -> None:
    lease = await held(house, start=0)
    before = await house.dump()

    assert await validate(house.queue.shard, [lease]) == ["STATE:CLAIMED"]

    assert await house.dump() == before


async def test_a_stale_token_validates_nothing(house: House) -> None:
    lease = await held(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [lease])
    await claim(house, waiter="two", consumer="w2", start=1, bits="new")
    before = await house.dump()

    strangers = [lease, Held(lease.task, "2:bits"), Held("NOBODY", "1:bits")]
    assert await validate(house.queue.shard, strangers) == ["LOST"] * 3

    assert await house.dump() == before


async def test_a_task_that_ended_is_lost(house: House) -> None:
    lease = await held(house)
    await complete(house.queue.shard, [Settled(*lease, b"")])
    before = await house.dump()

    assert await validate(house.queue.shard, [lease]) == ["LOST"]

    assert await house.dump() == before


async def test_one_that_is_lost_holds_back_no_other(house: House) -> None:
    leases = [await held(house) for _ in range(2)]

    answer = await validate(house.queue.shard, [leases[0], Held("NOBODY", "1:b"), leases[1]])

    assert answer == ["OK", "LOST", "OK"]
    assert (await everything(house))["stats"]["1:VALIDATING"] == "2"
