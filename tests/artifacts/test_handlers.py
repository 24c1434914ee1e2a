"""Artifacts and large results of async, sync and subprocess handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import LeaseLost
from rqueue.task.artifact import placeholder_of
from tests.artifacts import handlers
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, working

KINDS: list[dict[str, Any]] = [{"kind": None}, {"kind": "process"}]


@pytest.fixture
async def harness(server: Server, tmp_path: Path) -> AsyncIterator[Harness]:
    """A queue with a directory that all workers share."""
    async with opened(server, artifacts_url=f"file://{tmp_path}/kept") as found:
        yield found


@pytest.mark.parametrize("options", KINDS, ids=["here", "process"])
@pytest.mark.parametrize("function", [handlers.write, handlers.write_plainly])
async def test_an_artifact_put_by_a_handler_is_attached_to_its_task(
    harness: Harness, function: Any, options: Any
) -> None:
    harness.queue.task("write", **options)(function)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("write")
        result = await handle.result(timeout=30)

    task = await handle.task()
    (put,) = task.attached
    assert (put.name, put.media_type, put.size) == ("report.md", "text/markdown", 8)
    assert put.task == handle.id
    assert result == put.model_dump(mode="json")
    assert await harness.queue.artifacts.get(put.reference) == b"a report"
    (listed,) = await harness.queue.artifacts.list(handle.id)
    assert await listed.get() == b"a report"


@pytest.mark.parametrize("options", KINDS, ids=["here", "process"])
async def test_another_task_receives_an_artifact_as_argument_and_reference(
    harness: Harness, options: Any, tmp_path: Path
) -> None:
    write = harness.queue.task("write")(handlers.write)
    read = harness.queue.task("read", **options)(handlers.read)
    plain = harness.queue.task("plain", **options)(handlers.read_plainly)
    looked = await harness.queue.artifacts.put("beside", name="beside.txt")
    refs: dict[str, Any] = {"context_refs": [looked.reference]}

    async with working(harness.queue):
        async with harness.queue.dag() as dag:
            first = dag.add(write.call())
            one = dag.add(read.call(first.output), **refs)
            two = dag.add(plain.call(first.output, str(tmp_path)), **refs)
            three = dag.add(read.call(looked))
        results = [await node.result(timeout=30) for node in (one, two, three)]

    assert results == [["a report", "report.md", "beside"]] * 2 + [["beside", "beside.txt"]]


@pytest.mark.parametrize("options", KINDS, ids=["here", "process"])
@pytest.mark.parametrize("function", [handlers.large, handlers.large_plainly])
async def test_a_large_result_is_returned_unchanged(
    harness: Harness, function: Any, options: Any
) -> None:
    harness.queue.task("large", **options)(function)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("large")
        assert await handle.result(timeout=30) == handlers.LARGE

    task = await harness.queue.get(handle.id)
    assert task.result == handlers.LARGE
    assert task.result_artifact is not None
    assert task.result_artifact.size == len(handlers.LARGE) + 2
    assert (await (await harness.queue.handle(handle.id)).view())["result"] == handlers.LARGE
    assert await handle.status() is State.COMPLETED
    kept = await harness.client.get(harness.keys.result(handle.id.ulid))
    assert kept == placeholder_of(task.result_artifact)


async def test_large_results_reach_dependents_and_waiting_producers(harness: Harness) -> None:
    large = harness.queue.task("large")(handlers.large)
    length = harness.queue.task("length")(handlers.length)

    @harness.queue.task("spawns")
    async def spawns(ctx: Context) -> int:
        return len(await ctx.spawn(large.call(), wait=True))

    @harness.queue.task("looks")
    async def looks(ctx: Context) -> list[int]:
        return [len(one) for one in ctx.references.values()]

    async with working(harness.queue):
        async with harness.queue.dag() as dag:
            first = dag.add(large.call(), name="first")
            second = dag.add(length.call(first.output), name="second")
            refs = [first.output.reference]
            third = dag.add(looks.call(), name="third", after=[first], context_refs=refs)
        spawned = await harness.queue.enqueue("spawns")

        assert await second.result(timeout=30) == len(handlers.LARGE)
        assert await third.result(timeout=30) == [len(handlers.LARGE)]
        assert await spawned.result(timeout=30) == len(handlers.LARGE)
        results = await dag.results()

    assert results == {
        "first": handlers.LARGE,
        "second": len(handlers.LARGE),
        "third": [len(handlers.LARGE)],
    }


async def test_an_artifact_of_a_lost_attempt_is_not_attached(harness: Harness) -> None:
    raised: list[BaseException] = []

    @harness.queue.task("late")
    async def late(ctx: Context) -> None:
        await harness.client.hset(harness.keys.task(ctx.id.ulid), "token", "9:other")
        try:
            await ctx.artifacts.put(b"late")
        except BaseException as error:
            raised.append(error)
            await harness.client.hset(harness.keys.task(ctx.id.ulid), "token", ctx.token)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("late")
        task = await ended(harness.queue, handle.id, State.COMPLETED)

    assert [type(error) for error in raised] == [LeaseLost]
    assert task.attached == ()
