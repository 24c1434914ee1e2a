"""Handlers that spawn others: they go on, or make way and run again when the others have ended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Call, Context, Middleware, State, depends
from rqueue.context import Suspended
from rqueue.errors import InvalidTask, TaskDead
from rqueue.model.attempt import Completed, Failed
from rqueue.store import dags
from tests.house import House
from tests.services import kinds
from tests.services.sown import settled
from tests.services.working import ended, until, working


@pytest.fixture(autouse=True)
def double(house: House) -> Any:
    """What is spawned: it gives twice what it was given."""

    @house.queue.task("double")
    async def double(n: int) -> int:
        return 2 * n

    return double


async def test_one_that_is_not_waited_for_runs_on_its_own(house: House, double: Any) -> None:
    @house.queue.task("parent")
    async def parent(ctx: Context) -> str:
        return await ctx.spawn(double.call(4))

    async with working(house.queue):
        handle = await parent.options(dag_id="theirs").enqueue()
        child = await ended(house.queue, str(await handle.result(timeout=10)), State.COMPLETED)

    dag = await dags.read(house.queue.shard, child.dag_id)
    assert child.result == 8
    assert (child.spec.parent_id, child.dag_id.ulid) == (handle.id, handle.id.ulid)
    assert child.spec.dag_id == "theirs"
    assert (dag.total, dag.open, dag.status) == (2, 0, "completed")


async def test_a_parent_gets_the_outputs_and_spends_no_attempt(house: House, double: Any) -> None:
    runs: list[tuple[int, str]] = []

    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        runs.append((ctx.attempt, ctx.token.partition(":")[0]))
        first = await ctx.spawn(double.call(1), wait=True)
        return [first, *await ctx.gather(double.call(first), double.call(10))]

    async with working(house.queue, concurrency=1):
        handle = await parent.enqueue()
        found = await handle.result(timeout=10)

    task = await house.task(handle.id)
    assert found == [2, 4, 20]
    assert runs == [(1, "1"), (1, "2"), (1, "3")]
    assert (task.attempts, task.failure_history) == (0, ())
    assert (await house.queue.counts())[State.COMPLETED] == 4


async def test_while_it_waits_it_is_in_nobodys_hands(house: House, double: Any) -> None:
    @house.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.spawn(double.call(1).with_options(delay=3600), wait=True)

    async with working(house.queue) as worker:
        handle = await parent.enqueue()
        task = await ended(house.queue, handle.id, State.PENDING)
        await until(lambda: not worker.held and not worker.slots.running)
        assert worker.desk.ledger.types == {}

    (child,) = task.blocked_by
    assert (await house.task(child)).state is State.PENDING
    assert await house.client.xpending(house.keys.ready(), "workers") == {
        "pending": 0, "min": None, "max": None, "consumers": [],
    }  # fmt: skip


async def test_branches_that_wait_side_by_side_end_all_the_same(
    house: House, double: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        async with asyncio.TaskGroup() as group:
            branches = [group.create_task(ctx.spawn(double.call(n), wait=True)) for n in range(3)]
        return [branch.result() for branch in branches]

    async with working(house.queue):
        found = await (await parent.enqueue()).result(timeout=10)

    assert (found, "task lost" in caplog.text) == ([0, 2, 4], False)
    assert (await house.queue.counts())[State.COMPLETED] == 4


async def test_a_key_means_the_same_task_whatever_came_before(house: House, double: Any) -> None:
    found: list[str] = []

    @house.queue.task("parent", max_attempts=2)
    async def parent(ctx: Context) -> Any:
        if ctx.attempt == 1:
            found.append(await ctx.spawn(double.call(0)))
        found.append(await ctx.spawn(double.call(5), key="five"))
        if ctx.attempt == 1:
            raise ValueError("once more")
        return await ctx.spawn(double.call(5), key="five", wait=True)

    async with working(house.queue):
        handle = await parent.enqueue()
        await ended(house.queue, handle.id, State.RETRYING)
        await house.make_due(handle.id)
        await house.promoter.tick()
        assert await handle.result(timeout=10) == 10

    assert len(set(found)) == 2
    assert len(set(found[1:])) == 1


@pytest.mark.parametrize("key", ["", "7", 7])
async def test_a_key_that_could_be_an_ordinal_is_refused(
    house: House, double: Any, key: Any
) -> None:
    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        with pytest.raises(InvalidTask, match="key: is a text that is no number"):
            await ctx.spawn(double.call(1), key=key)

    async with working(house.queue):
        await (await parent.enqueue()).result(timeout=10)


async def test_none_is_gathered_at_once(house: House) -> None:
    @house.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.gather()

    async with working(house.queue):
        assert await (await parent.enqueue()).result(timeout=10) == []


async def test_a_thousand_are_gathered(house: House, double: Any) -> None:
    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        return sum(await ctx.gather(*[double.call(n) for n in range(1000)]))

    async with working(house.queue, concurrency=50):
        handle = await parent.enqueue()
        assert await handle.result(timeout=30) == 999_000

    dag = await settled(house, (await house.task(handle.id)).dag_id)
    assert (dag.total, dag.open, dag.status) == (1001, 0, "completed")


async def test_those_that_are_spawned_spawn_others(house: House) -> None:
    @house.queue.task("level", max_attempts=1)
    async def level(ctx: Context, depth: int) -> Any:
        if depth == 0:
            return 1
        return 1 + sum(await ctx.gather(level.call(depth - 1), level.call(depth - 1)))

    async with working(house.queue, concurrency=2):
        handle = await level.enqueue(3)
        assert await handle.result(timeout=20) == 15

    dag = await settled(house, (await house.task(handle.id)).dag_id)
    assert (dag.total, dag.status) == (15, "completed")


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_a_plain_function_spawns_and_waits(
    house: House, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    house.queue.task("plain", kind=kind, max_attempts=1, timeout=30)(kinds.spawns)
    handle = await house.queue.enqueue("plain", {"n": 3})

    async with working(house.queue):
        found: Any = await handle.result(timeout=30)

    child = await house.task(found.pop("left"))
    assert found == {"one": 6, "many": [8, 10], "attempt": 1}
    assert (child.type, child.spec.parent_id) == ("double", handle.id)
    assert "task lost" not in caplog.text


async def test_a_coroutine_in_a_process_does_too(house: House) -> None:
    house.queue.task("odd", kind="process", max_attempts=1, timeout=30)(kinds.spawns_on_a_loop)

    async with working(house.queue):
        handle = await house.queue.enqueue("odd", {"n": 3})
        assert await handle.result(timeout=30) == [6, "InvalidTask"]


async def test_what_a_step_raises_before_the_submit_reaches_a_process_by_its_name(
    house: House,
) -> None:
    class Raises(Middleware):
        async def before_submit(self, call: Call) -> None:
            if call.type == "double":
                raise ValueError("not to be told")

    house.queue.use(Raises())
    house.queue.task("plain", kind="process", max_attempts=1, timeout=30)(kinds.spawns)

    async with working(house.queue):
        handle = await house.queue.enqueue("plain", {"n": 3})
        with pytest.raises(TaskDead, match="middleware: raised ValueError before the submit"):
            await handle.result(timeout=30)


async def test_what_was_provided_is_closed_each_time(house: House, double: Any) -> None:
    seen: list[str] = []

    async def opened() -> Any:
        seen.append("opened")
        try:
            yield "it"
        finally:
            await asyncio.sleep(0.05)
            seen.append("closed")

    @house.queue.task("parent")
    async def parent(ctx: Context, it: str = depends(opened)) -> Any:
        return await ctx.spawn(double.call(1), wait=True)

    async with working(house.queue):
        assert await (await parent.enqueue()).result(timeout=10) == 2
        await until(lambda: len(seen) == 4)

    assert sorted(seen) == ["closed", "closed", "opened", "opened"]


async def test_no_exception_of_a_handler_catches_it(house: House, double: Any) -> None:
    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        try:
            return await ctx.spawn(double.call(1), wait=True)
        except Exception:
            return -1

    async with working(house.queue):
        assert await (await parent.enqueue()).result(timeout=10) == 2


@pytest.mark.parametrize("how", ["returns", "raises", "spawns another", "waits for another"])
async def test_a_handler_that_goes_on_is_for_nobody(
    house: House, double: Any, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO, "rqueue.worker")

    @house.queue.task("parent", max_attempts=1)
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

    async with working(house.queue):
        handle = await parent.enqueue()
        assert await handle.result(timeout=10) == 2

    lines = [record.getMessage() for record in caplog.records]
    swallowed = how in ("returns", "raises")
    assert lines.count("task suspended") == 1
    assert ("task lost" in lines) is swallowed
    assert (await house.task(handle.id)).attempts == 0
    assert (await house.queue.counts())[State.COMPLETED] == 2


async def test_it_is_told_and_counted_as_what_it_is(
    house: House, double: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rqueue.worker")

    @house.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.spawn(double.call(1), wait=True)

    async with working(house.queue) as worker:
        handle = await parent.enqueue()
        await handle.result(timeout=10)
        counted = worker.desk.ledger.figures.cell("rqueue_suspended_total", "house", "parent")

    (line,) = [record for record in caplog.records if record.getMessage() == "task suspended"]
    assert (vars(line)["task"], vars(line)["type"], vars(line)["attempt"]) == (
        handle.id, "parent", 1,
    )  # fmt: skip
    assert counted == [1]
    assert "task lost" not in {record.getMessage() for record in caplog.records}


async def test_the_steps_after_an_attempt_wait_for_its_end(house: House, double: Any) -> None:
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

    house.queue.use(Steps())

    @house.queue.task("parent")
    async def parent(ctx: Context) -> str:
        await ctx.spawn(double.call(1), wait=True)
        return await ctx.spawn(double.call(1), key="left")

    async with working(house.queue):
        child = str(await (await parent.enqueue()).result(timeout=10))
        await ended(house.queue, child, State.COMPLETED)
        await until(lambda: len(seen) == 10)

    of_parent = [step for step, type in seen if type == "parent"]
    assert of_parent == ["before", "before", "after", State.COMPLETED]
    assert (await house.task(child)).spec.headers == {"by": "steps"}


async def test_the_time_it_waits_is_not_its_own(house: House) -> None:
    @house.queue.task("slow")
    async def slow() -> None:
        await asyncio.sleep(0.8)

    @house.queue.task("parent", timeout=0.6, max_attempts=1)
    async def parent(ctx: Context) -> str:
        await ctx.spawn(slow.call(), wait=True)
        return "in time"

    async with working(house.queue):
        assert await (await parent.enqueue()).result(timeout=10) == "in time"


async def test_the_identity_of_its_type_does_not_bind_what_is_spawned(house: House) -> None:
    @house.queue.task("unique", dedupe="content")
    async def unique(n: int) -> int:
        return n

    @house.queue.task("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.gather(unique.call(1), unique.call(1))

    async with working(house.queue):
        assert await (await parent.enqueue()).result(timeout=10) == [1, 1]

    assert await house.client.keys("*idem:*") == []
    assert (await house.queue.counts())[State.COMPLETED] == 3


async def test_one_that_was_acknowledged_first_has_no_right_to_spawn(
    house: House, double: Any
) -> None:
    refused: list[str] = []

    @house.queue.task("parent", ack="before")
    async def parent(ctx: Context) -> None:
        try:
            await ctx.spawn(double.call(1), wait=True)
        except Exception as error:
            refused.append(type(error).__name__)

    async with working(house.queue):
        await parent.enqueue()
        await until(lambda: refused == ["LeaseLost"])


async def test_an_unhandled_mistake_in_a_call_fails_the_attempt(house: House) -> None:
    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        await ctx.spawn({"type": "no name!"})

    async with working(house.queue):
        with pytest.raises(TaskDead, match="InvalidTask"):
            await (await parent.enqueue()).result(timeout=10)
