"""Handlers that spawn tasks: they continue, or are suspended and run again when the tasks have
ended.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Call, Context, Middleware, State, depends
from rqueue.dags import store as dag_store
from rqueue.errors import InvalidTask, TaskDead
from rqueue.task.attempt.outcome import Completed, Failed
from rqueue.worker.context import Suspended
from tests.dags.submitted_dags import settled
from tests.harness import Harness
from tests.worker import functions
from tests.worker.running import ended, until, working


@pytest.fixture(autouse=True)
def double(harness: Harness) -> Any:
    """A task to spawn: returns twice its argument."""

    @harness.queue.task("double")
    async def double(n: int) -> int:
        return 2 * n

    return double


async def test_without_wait_a_spawned_task_is_independent(harness: Harness, double: Any) -> None:
    @harness.queue.task("parent")
    async def parent(ctx: Context) -> str:
        return await ctx.spawn(double.call(4))

    async with working(harness.queue):
        handle = await parent.options(dag_id="theirs").enqueue()
        child = await ended(harness.queue, str(await handle.result(timeout=10)), State.COMPLETED)

    dag = await dag_store.read(harness.queue._internals.shard, child.dag_id)
    assert child.result == 8
    assert (child.spec.parent_id, child.dag_id.ulid) == (handle.id, handle.id.ulid)
    assert child.spec.dag_id == "theirs"
    assert (dag.total, dag.open, dag.status) == (2, 0, "completed")


async def test_a_parent_gets_the_outputs_and_spends_no_attempt(
    harness: Harness, double: Any
) -> None:
    runs: list[tuple[int, str]] = []

    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        runs.append((ctx.attempt, ctx.token.partition(":")[0]))
        first = await ctx.spawn(double.call(1), wait=True)
        return [first, *await ctx.gather(double.call(first), double.call(10))]

    async with working(harness.queue, concurrency=1):
        handle = await parent.enqueue()
        found = await handle.result(timeout=10)

    task = await harness.task(handle.id)
    assert found == [2, 4, 20]
    assert runs == [(1, "1"), (1, "2"), (1, "3")]
    assert (task.attempts, task.failure_history) == (0, ())
    assert (await harness.queue.counts())[State.COMPLETED] == 4


async def test_a_suspended_task_has_no_lease(harness: Harness, double: Any) -> None:
    @harness.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.spawn(double.call(1).with_options(delay=3600), wait=True)

    async with working(harness.queue) as worker:
        handle = await parent.enqueue()
        task = await ended(harness.queue, handle.id, State.PENDING)
        await until(lambda: not worker.held and not worker.slots.running)
        assert worker.executor.stats.types == {}

    (child,) = task.blocked_by
    assert (await harness.task(child)).state is State.PENDING
    assert await harness.client.xpending(harness.keys.ready(), "workers") == {
        "pending": 0, "min": None, "max": None, "consumers": [],
    }  # fmt: skip


async def test_concurrent_branches_that_wait_all_end(
    harness: Harness, double: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        async with asyncio.TaskGroup() as group:
            branches = [group.create_task(ctx.spawn(double.call(n), wait=True)) for n in range(3)]
        return [branch.result() for branch in branches]

    async with working(harness.queue):
        found = await (await parent.enqueue()).result(timeout=10)

    assert (found, "task lost" in caplog.text) == ([0, 2, 4], False)
    assert (await harness.queue.counts())[State.COMPLETED] == 4


async def test_a_key_means_the_same_task_in_each_run_of_the_handler(
    harness: Harness, double: Any
) -> None:
    found: list[str] = []

    @harness.queue.task("parent", max_attempts=2)
    async def parent(ctx: Context) -> Any:
        if ctx.attempt == 1:
            found.append(await ctx.spawn(double.call(0)))
        found.append(await ctx.spawn(double.call(5), key="five"))
        if ctx.attempt == 1:
            raise ValueError("once more")
        return await ctx.spawn(double.call(5), key="five", wait=True)

    async with working(harness.queue):
        handle = await parent.enqueue()
        await ended(harness.queue, handle.id, State.RETRYING)
        await harness.make_due(handle.id)
        await harness.promoter.tick()
        assert await handle.result(timeout=10) == 10

    assert len(set(found)) == 2
    assert len(set(found[1:])) == 1


@pytest.mark.parametrize("key", ["", "7", 7])
async def test_a_key_that_could_be_an_ordinal_is_refused(
    harness: Harness, double: Any, key: Any
) -> None:
    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        with pytest.raises(InvalidTask, match="key: is a string that is not a number"):
            await ctx.spawn(double.call(1), key=key)

    async with working(harness.queue):
        await (await parent.enqueue()).result(timeout=10)


async def test_gathering_no_tasks_returns_immediately(harness: Harness) -> None:
    @harness.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.gather()

    async with working(harness.queue):
        assert await (await parent.enqueue()).result(timeout=10) == []


async def test_a_thousand_tasks_are_gathered(harness: Harness, double: Any) -> None:
    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        return sum(await ctx.gather(*[double.call(n) for n in range(1000)]))

    async with working(harness.queue, concurrency=50):
        handle = await parent.enqueue()
        assert await handle.result(timeout=30) == 999_000

    dag = await settled(harness, (await harness.task(handle.id)).dag_id)
    assert (dag.total, dag.open, dag.status) == (1001, 0, "completed")


async def test_spawned_tasks_can_spawn_others(harness: Harness) -> None:
    @harness.queue.task("level", max_attempts=1)
    async def level(ctx: Context, depth: int) -> Any:
        if depth == 0:
            return 1
        return 1 + sum(await ctx.gather(level.call(depth - 1), level.call(depth - 1)))

    async with working(harness.queue, concurrency=2):
        handle = await level.enqueue(3)
        assert await handle.result(timeout=20) == 15

    dag = await settled(harness, (await harness.task(handle.id)).dag_id)
    assert (dag.total, dag.status) == (15, "completed")


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_a_plain_function_spawns_and_waits(
    harness: Harness, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    harness.queue.task("plain", kind=kind, max_attempts=1, timeout=30)(functions.spawns)
    handle = await harness.queue.enqueue("plain", {"n": 3})

    async with working(harness.queue):
        found: Any = await handle.result(timeout=30)

    child = await harness.task(found.pop("left"))
    assert found == {"one": 6, "many": [8, 10], "attempt": 1}
    assert (child.type, child.spec.parent_id) == ("double", handle.id)
    assert "task lost" not in caplog.text


async def test_a_coroutine_in_a_process_spawns_and_waits(harness: Harness) -> None:
    harness.queue.task("odd", kind="process", max_attempts=1, timeout=30)(
        functions.spawns_on_a_loop
    )

    async with working(harness.queue):
        handle = await harness.queue.enqueue("odd", {"n": 3})
        assert await handle.result(timeout=30) == [6, "InvalidTask"]


async def test_an_exception_of_before_submit_reaches_a_process_by_its_name(
    harness: Harness,
) -> None:
    class Raises(Middleware):
        async def before_submit(self, call: Call) -> None:
            if call.type == "double":
                raise ValueError("not to be told")

    harness.queue.use(Raises())
    harness.queue.task("plain", kind="process", max_attempts=1, timeout=30)(functions.spawns)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("plain", {"n": 3})
        with pytest.raises(TaskDead, match="middleware: raised ValueError before the submit"):
            await handle.result(timeout=30)


async def test_dependencies_are_closed_at_each_suspension(harness: Harness, double: Any) -> None:
    seen: list[str] = []

    async def opened() -> Any:
        seen.append("opened")
        try:
            yield "it"
        finally:
            await asyncio.sleep(0.05)
            seen.append("closed")

    @harness.queue.task("parent")
    async def parent(ctx: Context, it: str = depends(opened)) -> Any:
        return await ctx.spawn(double.call(1), wait=True)

    async with working(harness.queue):
        assert await (await parent.enqueue()).result(timeout=10) == 2
        await until(lambda: len(seen) == 4)

    assert sorted(seen) == ["closed", "closed", "opened", "opened"]


async def test_an_except_clause_does_not_catch_a_suspension(harness: Harness, double: Any) -> None:
    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        try:
            return await ctx.spawn(double.call(1), wait=True)
        except Exception:
            return -1

    async with working(harness.queue):
        assert await (await parent.enqueue()).result(timeout=10) == 2


@pytest.mark.parametrize("how", ["returns", "raises", "spawns another", "waits for another"])
async def test_the_outcome_of_a_handler_that_continues_after_its_suspension_is_ignored(
    harness: Harness, double: Any, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO, "rqueue.worker")

    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        try:
            return await ctx.spawn(double.call(1), wait=True)
        except Suspended:
            match how:
                case "raises":
                    raise ValueError("after the end") from None
                case "spawns another":
                    await ctx.spawn(double.call(2), key="another")
                case "waits for another":
                    await ctx.spawn(double.call(2), key="another", wait=True)
            return -1

    async with working(harness.queue):
        handle = await parent.enqueue()
        assert await handle.result(timeout=10) == 2

    lines = [record.getMessage() for record in caplog.records]
    swallowed = how in ("returns", "raises")
    assert lines.count("task suspended") == 1
    assert ("task lost" in lines) is swallowed
    assert (await harness.task(handle.id)).attempts == 0
    assert (await harness.queue.counts())[State.COMPLETED] == 2


async def test_a_suspension_is_logged_and_counted(
    harness: Harness, double: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rqueue.worker")

    @harness.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.spawn(double.call(1), wait=True)

    async with working(harness.queue) as worker:
        handle = await parent.enqueue()
        await handle.result(timeout=10)
        counted = worker.executor.stats.figures.cell("rqueue_suspended_total", "sales", "parent")

    (line,) = [record for record in caplog.records if record.getMessage() == "task suspended"]
    assert (vars(line)["task"], vars(line)["type"], vars(line)["attempt"]) == (
        handle.id, "parent", 1,
    )  # fmt: skip
    assert counted == [1]
    assert "task lost" not in {record.getMessage() for record in caplog.records}


async def test_after_attempt_does_not_run_at_a_suspension(harness: Harness, double: Any) -> None:
    seen: list[Any] = []

    class Steps(Middleware):
        async def before_submit(self, call: Call) -> Call:
            return call.with_headers({"by": "steps"})

        async def before_attempt(self, ctx: Context) -> None:
            seen.append(("before", ctx.task.type))

        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(("after", ctx.task.type))

        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            seen.append((state, ctx.task.type))

    harness.queue.use(Steps())

    @harness.queue.task("parent")
    async def parent(ctx: Context) -> str:
        await ctx.spawn(double.call(1), wait=True)
        return await ctx.spawn(double.call(1), key="left")

    async with working(harness.queue):
        child = str(await (await parent.enqueue()).result(timeout=10))
        await ended(harness.queue, child, State.COMPLETED)
        await until(lambda: len(seen) == 10)

    of_parent = [step for step, type in seen if type == "parent"]
    assert of_parent == ["before", "before", "after", State.COMPLETED]
    assert (await harness.task(child)).spec.headers == {"by": "steps"}


async def test_the_time_of_a_suspension_does_not_count_for_the_timeout(harness: Harness) -> None:
    @harness.queue.task("slow")
    async def slow() -> None:
        await asyncio.sleep(0.8)

    @harness.queue.task("parent", timeout=0.6, max_attempts=1)
    async def parent(ctx: Context) -> str:
        await ctx.spawn(slow.call(), wait=True)
        return "in time"

    async with working(harness.queue):
        assert await (await parent.enqueue()).result(timeout=10) == "in time"


async def test_deduplication_of_a_type_does_not_apply_to_spawned_tasks(harness: Harness) -> None:
    @harness.queue.task("unique", dedupe="content")
    async def unique(n: int) -> int:
        return n

    @harness.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.gather(unique.call(1), unique.call(1))

    async with working(harness.queue):
        assert await (await parent.enqueue()).result(timeout=10) == [1, 1]

    assert await harness.client.keys("*idem:*") == []
    assert (await harness.queue.counts())[State.COMPLETED] == 3


async def test_a_task_acknowledged_before_cannot_spawn(harness: Harness, double: Any) -> None:
    refused: list[str] = []

    @harness.queue.task("parent", ack="before")
    async def parent(ctx: Context) -> None:
        try:
            await ctx.spawn(double.call(1), wait=True)
        except Exception as error:
            refused.append(type(error).__name__)

    async with working(harness.queue):
        await parent.enqueue()
        await until(lambda: refused == ["LeaseLost"])


async def test_an_invalid_call_fails_the_attempt(harness: Harness) -> None:
    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        await ctx.spawn({"type": "no name!"})

    async with working(harness.queue):
        with pytest.raises(TaskDead, match="InvalidTask"):
            await (await parent.enqueue()).result(timeout=10)
