"""Task functions: enqueued with their own arguments and options."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Context, Queue
from rqueue.errors import InvalidTask
from tests.harness import Harness


async def test_a_task_has_its_arguments_and_its_functions_options(harness: Harness) -> None:
    @harness.queue.task("resize", priority=30, timeout=60)
    async def resize(ctx: Context, path: str, width: int = 800) -> str:
        return path

    handle = await resize.enqueue("a.png", width=400)

    task = await harness.task(handle.id)
    assert (task.type, task.payload) == ("resize", {"path": "a.png", "width": 400})
    assert (task.spec.priority, task.spec.timeout_sec) == (30, 60)


async def test_options_of_a_call_override_those_of_the_function(harness: Harness) -> None:
    @harness.queue.task("job", priority=30)
    async def job() -> None: ...

    handle = await job.options(priority=5, tags=["now"]).enqueue()
    other = await job.enqueue()

    assert (await harness.task(handle.id)).spec.priority == 5
    assert (await harness.task(handle.id)).spec.tags == ("now",)
    assert (await harness.task(other.id)).spec.priority == 30


async def test_calls_are_enqueued_in_bulk(harness: Harness) -> None:
    @harness.queue.task("job")
    async def job(n: int) -> None: ...

    handles = await harness.queue.enqueue_many([job.call(n) for n in range(3)])

    assert [(await harness.task(h.id)).payload for h in handles] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_wrong_arguments_are_refused_before_the_call(harness: Harness) -> None:
    @harness.queue.task("job")
    async def job(n: int) -> None: ...

    with pytest.raises(InvalidTask, match=r"arguments\.n"):
        await job.enqueue("many")  # type: ignore[arg-type]

    assert await harness.dump() == {}


async def test_a_function_is_enqueued_from_blocking_code(harness: Harness) -> None:
    @harness.queue.task("job")
    def job(n: int) -> None: ...

    handle = await asyncio.to_thread(job.sync.enqueue, 7)

    assert (await harness.task(handle.id)).payload == {"n": 7}
    await asyncio.to_thread(harness.queue.sync.aclose)


def test_a_wrong_option_is_reported_where_it_is_given() -> None:
    queue = Queue("q", url="redis://localhost:1")

    with pytest.raises(InvalidTask, match="prio"):
        queue.task("job", prio=3)


async def test_calling_a_task_function_runs_the_plain_function(harness: Harness) -> None:
    @harness.queue.task("add")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
