"""How spawned tasks end that are waited for, and what that means for the one that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, Reject, State
from rqueue.context import Suspended
from rqueue.errors import SubtaskFailed, TaskDead
from rqueue.services.worker import Worker
from tests.house import House
from tests.services.sown import planted, settled
from tests.services.working import ended, until, working


@pytest.fixture
async def worker(house: House) -> AsyncIterator[Worker]:
    """A worker whose `parent` waits for one child that fails until it may not."""
    queue, allowed = house.queue, asyncio.Event()

    @queue.task("child", max_attempts=1)
    async def child() -> str:
        if not allowed.is_set():
            raise Reject("not allowed")
        return "done"

    @queue.task("late")
    async def late() -> None: ...

    @queue.task("parent", max_attempts=3)
    async def parent(ctx: Context) -> Any:
        return await ctx.spawn(child.call(), wait=True)

    @queue.task("tolerant", max_attempts=1)
    async def tolerant(ctx: Context) -> Any:
        try:
            return await ctx.spawn(late.options(delay=3600).call(), wait=True)
        except SubtaskFailed as error:
            return [error.task, error.state, error.reason]

    @queue.task("gathers", max_attempts=1)
    async def gathers(ctx: Context) -> Any:
        found = await ctx.gather(child.call(), late.call(), return_exceptions=True)
        return [one and (one.state, one.reason) for one in found]

    async with working(queue) as worker:
        worker.desk.state["allowed"] = allowed
        yield worker


async def child_of(house: House, parent: str) -> str:
    """The one that a parent waits for, when it does."""
    return str((await ended(house.queue, parent, State.PENDING)).blocked_by[0])


async def test_a_dead_child_is_waited_for_until_it_is_revived(house: House, worker: Worker) -> None:
    parent = await house.queue.enqueue("parent")
    child = await child_of(house, parent.id)
    dead = await ended(house.queue, child, State.DEAD_LETTERED)
    dag = await settled(house, dead.dag_id)
    waits = (await house.task(parent.id)).state

    worker.desk.state["allowed"].set()
    await house.queue.revive(child)

    assert await parent.result(timeout=10) == "done"
    assert (waits, dag.status) == (State.PENDING, "failed")
    assert (await settled(house, dag.id)).status == "completed"


async def test_where_any_end_is_waited_for_a_dead_one_is_told(house: House, worker: Worker) -> None:
    parent = await house.queue.enqueue("gathers")

    found = (await told(house, parent.id, State.COMPLETED)).result

    assert found[0][0] == "DEAD_LETTERED"
    assert "not allowed" in found[0][1]
    assert found[1] is None


async def told(house: House, task: str, state: State) -> Any:
    """The task, when it is in this state; goes on meanwhile with what deaths leave to others."""
    async with asyncio.timeout(10):
        while (found := await house.task(task)).state is not state:
            await settled(house)
    return found


async def test_a_dag_that_continues_tells_of_a_death_and_the_parent_dies_of_it(
    house: House, worker: Worker
) -> None:
    dag, ids = await planted(
        house, {"one": {"type": "parent"}, "two": {"type": "late", "after": ["one"]}},
        on_failure="continue",
    )  # fmt: skip
    parent = await told(house, ids["one"], State.DEAD_LETTERED)
    found = await settled(house, dag)

    assert parent.attempts == 1
    assert "SubtaskFailed" in str(parent.last_error)
    assert (await house.task(ids["two"])).state is State.CANCELLED
    assert (found.open, found.dead, found.status) == (0, 2, "failed")


async def test_a_dag_that_fails_fast_takes_the_waiting_parent_with_it(
    house: House, worker: Worker
) -> None:
    dag, ids = await planted(
        house, {"one": {"type": "parent"}, "two": {"type": "late", "after": ["one"]}},
        on_failure="fail_fast",
    )  # fmt: skip
    await ended(house.queue, await child_of(house, ids["one"]), State.DEAD_LETTERED)

    found = await settled(house, dag)

    states = [(await house.task(ids[name])).state for name in ("one", "two")]
    assert states == [State.CANCELLED, State.CANCELLED]
    assert (found.status, found.open) == ("failed", 0)


async def test_a_cancelled_child_is_told_with_its_reason(house: House, worker: Worker) -> None:
    parent = await house.queue.enqueue("tolerant")
    child = await child_of(house, parent.id)

    await house.queue.cancel(child, "not needed")
    await settled(house)

    assert await parent.result(timeout=10) == [child, "CANCELLED", "not needed"]


async def test_a_cancel_of_a_parent_that_waits_is_final(house: House, worker: Worker) -> None:
    parent = await house.queue.enqueue("tolerant")
    child = await child_of(house, parent.id)

    await house.queue.cancel(parent.id, "enough", dependents="unblock")
    await house.queue.run_now(child)
    await ended(house.queue, child, State.COMPLETED)

    task = await house.task(parent.id)
    dag = await settled(house, task.dag_id)
    assert (task.state, task.cancel_reason) == (State.CANCELLED, "enough")
    assert (dag.status, dag.open, dag.cancelled) == ("completed", 0, 1)


async def test_a_parent_that_is_cancelled_takes_what_it_waits_for_with_it(
    house: House, worker: Worker
) -> None:
    parent = await house.queue.enqueue("tolerant")
    child = await child_of(house, parent.id)

    await house.queue.cancel(parent.id, "enough")

    found = await house.task(child)
    dag = await settled(house, found.dag_id)
    assert (found.state, found.cancel_reason) == (State.CANCELLED, f"Parent {parent.id} cancelled")
    assert (dag.status, dag.open, dag.cancelled) == ("cancelled", 0, 2)


async def test_an_end_that_no_handler_cares_for_is_final_for_it(
    house: House, worker: Worker
) -> None:
    parent = await house.queue.enqueue("parent")
    child = await child_of(house, parent.id)
    await ended(house.queue, child, State.DEAD_LETTERED)

    await house.queue.discard(child, "given up")
    await settled(house)

    with pytest.raises(TaskDead, match="SubtaskFailed"):
        await parent.result(timeout=10)
    assert (await house.task(parent.id)).attempts == 1


async def test_a_slow_close_is_not_cut_short_when_the_task_is_back(
    house: House, worker: Worker
) -> None:
    closed: list[str] = []

    @house.queue.task("quick")
    async def quick() -> str:
        return "quick"

    @house.queue.task("opens")
    async def opens(ctx: Context) -> Any:
        try:
            return await ctx.spawn(quick.call(), wait=True)
        finally:
            await asyncio.sleep(0.2)
            closed.append(ctx.token.partition(":")[0])

    async with working(house.queue):
        assert await (await opens.enqueue()).result(timeout=10) == "quick"
        await until(lambda: closed == ["1", "2"])


async def test_one_that_stays_is_stopped_by_its_time_also_when_the_task_is_back(
    house: House, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []

    @house.queue.task("quick")
    async def quick() -> str:
        return "quick"

    @house.queue.task("stays", timeout=0.5)
    async def stays(ctx: Context) -> Any:
        try:
            return await ctx.spawn(quick.call(), wait=True)
        except Suspended:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.token.partition(":")[0])

    async with working(house.queue) as second:
        assert await (await stays.enqueue()).result(timeout=10) == "quick"
        await until(lambda: stopped == ["2", "1"])
        await until(lambda: not second.slots.leaving)

    # Nothing of it was sent to the server.
    assert "task lost" not in caplog.text


async def test_a_heartbeat_that_misses_the_lease_meanwhile_says_nothing(
    house: House, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    leaves = asyncio.Event()

    @house.queue.task("lingers")
    async def lingers(ctx: Context) -> Any:
        try:
            return await ctx.spawn({"type": "late", "delay": 3600}, wait=True)
        finally:
            await leaves.wait()

    async with working(house.queue) as second:
        handle = await lingers.enqueue()
        await ended(house.queue, handle.id, State.PENDING)
        (running,) = second.slots.running.values()
        await second.beat.tick()
        await asyncio.sleep(0)
        assert (running.stopped, "task lost" in caplog.text) == ("", False)
        leaves.set()
        await until(lambda: not second.slots.running)

    assert "task lost" not in caplog.text
    assert second.held == {}
