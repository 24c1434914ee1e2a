"""leave: a worker that has ended is offline at once, unless another runs under its name."""

from __future__ import annotations

from rqueue.core.workers import drain, leave
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.crew import enrol


async def test_the_last_one_under_a_name_has_left(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    before = await everything(harness)

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    after = await everything(harness)
    assert list(after["worker:w1"]) == ["left"]
    assert after["workers"] == before["workers"]


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    before = await harness.dump()

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == before


async def test_one_that_was_drained_takes_its_mark_along(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert list((await everything(harness))["worker:w1"]) == ["left"]


async def test_a_late_copy_does_not_send_away_who_came_after(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    await enrol(harness, "w1", "w1/b")
    before = await harness.dump()

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == before


async def test_of_two_the_other_stays(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await enrol(harness, "w1", "w1/b")

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert list((await everything(harness))["worker:w1"]) == ["run:w1/b"]


async def test_one_that_nobody_knows_leaves_nothing_behind(harness: Harness) -> None:
    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == {}
