"""leave: a worker that has ended is offline at once, unless another runs under its name."""

from __future__ import annotations

from rqueue.store.fleet import drain, leave
from tests.house import House
from tests.lua.rows import everything
from tests.lua.worker.crew import enrol


async def test_the_last_one_under_a_name_has_left(house: House) -> None:
    await enrol(house, "w1", "w1/a")
    before = await everything(house)

    await leave(house.queue.shard, "w1", "w1/a")

    after = await everything(house)
    assert list(after["worker:w1"]) == ["left"]
    assert after["workers"] == before["workers"]


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await enrol(house, "w1", "w1/a")
    await leave(house.queue.shard, "w1", "w1/a")
    before = await house.dump()

    await leave(house.queue.shard, "w1", "w1/a")

    assert await house.dump() == before


async def test_one_that_was_drained_takes_its_mark_along(house: House) -> None:
    await enrol(house, "w1", "w1/a")
    await drain(house.queue.shard, "w1")

    await leave(house.queue.shard, "w1", "w1/a")

    assert list((await everything(house))["worker:w1"]) == ["left"]


async def test_a_late_copy_does_not_send_away_who_came_after(house: House) -> None:
    await enrol(house, "w1", "w1/a")
    await leave(house.queue.shard, "w1", "w1/a")
    await enrol(house, "w1", "w1/b")
    before = await house.dump()

    await leave(house.queue.shard, "w1", "w1/a")

    assert await house.dump() == before


async def test_of_two_the_other_stays(house: House) -> None:
    await enrol(house, "w1", "w1/a")
    await enrol(house, "w1", "w1/b")

    await leave(house.queue.shard, "w1", "w1/a")

    assert list((await everything(house))["worker:w1"]) == ["run:w1/b"]


async def test_one_that_nobody_knows_leaves_nothing_behind(house: House) -> None:
    await leave(house.queue.shard, "w1", "w1/a")

    assert await house.dump() == {}
