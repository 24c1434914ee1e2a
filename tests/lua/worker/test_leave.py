"""leave: a worker that has ended is offline at once, unless another runs under its name."""

from __future__ import annotations

from rqueue.core.workers import drain, leave
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.registered import register_worker


async def test_the_last_run_under_a_name_has_left(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    before = await everything(harness)

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    after = await everything(harness)
    assert list(after["worker:w1"]) == ["left"]
    assert after["workers"] == before["workers"]


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    before = await harness.dump()

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == before


async def test_a_drained_run_removes_its_mark(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert list((await everything(harness))["worker:w1"]) == ["left"]


async def test_a_late_copy_does_not_remove_a_later_run(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    await register_worker(harness, "w1", "w1/b")
    before = await harness.dump()

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == before


async def test_of_two_runs_the_other_stays(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await register_worker(harness, "w1", "w1/b")

    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert list((await everything(harness))["worker:w1"]) == ["run:w1/b"]


async def test_an_unknown_worker_leaves_no_key(harness: Harness) -> None:
    await leave(harness.queue._internals.shard, "w1", "w1/a")

    assert await harness.dump() == {}
