"""How spawned tasks end, and what that means for the task that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, Reject, State
from rqueue.errors import SubtaskFailed, TaskDead
from rqueue.worker.context import Suspended
from rqueue.worker.worker import Worker
from tests.dags.submitted_dags import settled, submit_plan
from tests.harness import Harness
from tests.worker.running import ended, until, working


@pytest.fixture
async def worker(harness: Harness) -> AsyncIterator[Worker]:
    """A worker whose `parent` waits for one child, which fails until it may succeed."""
    queue, allowed = harness.queue, asyncio.Event()

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
        worker.executor.state["allowed"] = allowed
        yield worker


async def child_of(harness: Harness, parent: str) -> str:
    """The task that a parent waits for."""
    return str((await ended(harness.queue, parent, State.PENDING)).blocked_by[0])


async def test_the_parent_of_a_dead_child_waits_until_it_is_retried(
    harness: Harness, worker: Worker
) -> None:
    parent = await harness.queue.enqueue("parent")
    child = await child_of(harness, parent.id)
    dead = await ended(harness.queue, child, State.DEAD_LETTERED)
    dag = await settled(harness, dead.dag_id)
    waits = (await harness.task(parent.id)).state

    worker.executor.state["allowed"].set()
    await harness.queue.dead.retry(child)

    assert await parent.result(timeout=10) == "done"
    assert (waits, dag.status) == (State.PENDING, "failed")
    assert (await settled(harness, dag.id)).status == "completed"


async def test_gather_with_return_exceptions_returns_a_dead_child(
    harness: Harness, worker: Worker
) -> None:
    parent = await harness.queue.enqueue("gathers")

    found = (await task_in(harness, parent.id, State.COMPLETED)).result

    assert found[0][0] == "DEAD_LETTERED"
    assert "not allowed" in found[0][1]
    assert found[1] is None


async def task_in(harness: Harness, task: str, state: State) -> Any:
    """The task, when it is in this state; meanwhile the promoter finishes what failures
    have left.
    """
    async with asyncio.timeout(10):
        while (found := await harness.task(task)).state is not state:
            await settled(harness)
    return found


async def test_a_dead_child_of_a_dag_that_continues_fails_its_parent(
    harness: Harness, worker: Worker
) -> None:
    dag, ids = await submit_plan(
        harness, {"one": {"type": "parent"}, "two": {"type": "late", "after": ["one"]}},
        on_failure="continue",
    )  # fmt: skip
    parent = await task_in(harness, ids["one"], State.DEAD_LETTERED)
    found = await settled(harness, dag)

    assert parent.attempts == 1
    assert "SubtaskFailed" in str(parent.last_error)
    assert (await harness.task(ids["two"])).state is State.CANCELLED
    assert (found.open, found.dead, found.status) == (0, 2, "failed")


async def test_a_dag_that_fails_fast_cancels_the_waiting_parent(
    harness: Harness, worker: Worker
) -> None:
    dag, ids = await submit_plan(
        harness, {"one": {"type": "parent"}, "two": {"type": "late", "after": ["one"]}},
        on_failure="fail_fast",
    )  # fmt: skip
    await ended(harness.queue, await child_of(harness, ids["one"]), State.DEAD_LETTERED)

    found = await settled(harness, dag)

    states = [(await harness.task(ids[name])).state for name in ("one", "two")]
    assert states == [State.CANCELLED, State.CANCELLED]
    assert (found.status, found.open) == ("failed", 0)


async def test_a_cancelled_child_is_reported_with_its_reason(
    harness: Harness, worker: Worker
) -> None:
    parent = await harness.queue.enqueue("tolerant")
    child = await child_of(harness, parent.id)

    await harness.queue.cancel(child, "not needed")
    await settled(harness)

    assert await parent.result(timeout=10) == [child, "CANCELLED", "not needed"]


async def test_a_cancel_of_a_suspended_parent_is_final(harness: Harness, worker: Worker) -> None:
    parent = await harness.queue.enqueue("tolerant")
    child = await child_of(harness, parent.id)

    await harness.queue.cancel(parent.id, "enough", dependents="unblock")
    await harness.queue.run_now(child)
    await ended(harness.queue, child, State.COMPLETED)

    task = await harness.task(parent.id)
    dag = await settled(harness, task.dag_id)
    assert (task.state, task.cancel_reason) == (State.CANCELLED, "enough")
    assert (dag.status, dag.open, dag.cancelled) == ("completed", 0, 1)


async def test_a_cancelled_parent_cancels_its_children(harness: Harness, worker: Worker) -> None:
    parent = await harness.queue.enqueue("tolerant")
    child = await child_of(harness, parent.id)

    await harness.queue.cancel(parent.id, "enough")

    found = await harness.task(child)
    dag = await settled(harness, found.dag_id)
    assert (found.state, found.cancel_reason) == (State.CANCELLED, f"Parent {parent.id} cancelled")
    assert (dag.status, dag.open, dag.cancelled) == ("cancelled", 0, 2)


async def test_an_unhandled_failure_of_a_child_fails_its_parent_without_a_retry(
    harness: Harness, worker: Worker
) -> None:
    parent = await harness.queue.enqueue("parent")
    child = await child_of(harness, parent.id)
    await ended(harness.queue, child, State.DEAD_LETTERED)

    await harness.queue.dead.discard(child, "given up")
    await settled(harness)

    with pytest.raises(TaskDead, match="SubtaskFailed"):
        await parent.result(timeout=10)
    assert (await harness.task(parent.id)).attempts == 1


async def test_cleanup_of_a_suspended_run_may_overlap_the_next_run(
    harness: Harness, worker: Worker
) -> None:
    closed: list[str] = []

    @harness.queue.task("quick")
    async def quick() -> str:
        return "quick"

    @harness.queue.task("opens")
    async def opens(ctx: Context) -> Any:
        try:
            return await ctx.spawn(quick.call(), wait=True)
        finally:
            await asyncio.sleep(0.2)
            closed.append(ctx.token.partition(":")[0])

    async with working(harness.queue):
        assert await (await opens.enqueue()).result(timeout=10) == "quick"
        await until(lambda: closed == ["1", "2"])


async def test_a_suspended_run_that_does_not_end_is_stopped_by_its_timeout(
    harness: Harness, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []

    @harness.queue.task("quick")
    async def quick() -> str:
        return "quick"

    @harness.queue.task("stays", timeout=0.5)
    async def stays(ctx: Context) -> Any:
        try:
            return await ctx.spawn(quick.call(), wait=True)
        except Suspended:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.token.partition(":")[0])

    async with working(harness.queue) as second:
        assert await (await stays.enqueue()).result(timeout=10) == "quick"
        await until(lambda: stopped == ["2", "1"])
        await until(lambda: not second.slots.suspended_code)

    # None of it was sent to Redis.
    assert "task lost" not in caplog.text


async def test_a_renewal_of_a_suspended_lease_logs_nothing(
    harness: Harness, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    leaves = asyncio.Event()

    @harness.queue.task("lingers")
    async def lingers(ctx: Context) -> Any:
        try:
            return await ctx.spawn({"type": "late", "delay": 3600}, wait=True)
        finally:
            await leaves.wait()

    async with working(harness.queue) as second:
        handle = await lingers.enqueue()
        await ended(harness.queue, handle.id, State.PENDING)
        (running,) = second.slots.running.values()
        await second.beat.tick()
        await asyncio.sleep(0)
        assert (running.stopped, "task lost" in caplog.text) == ("", False)
        leaves.set()
        await until(lambda: not second.slots.running)

    assert "task lost" not in caplog.text
    assert second.held == {}
