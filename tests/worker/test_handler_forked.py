"""Handlers in subprocesses that fork, or break their event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue.errors import TaskDead
from rqueue.store.connection import Connection
from rqueue.worker.children.messages import Begun, Ended
from tests.harness import Harness, build
from tests.worker import forking, functions
from tests.worker.running import until, working

HANDLERS: tuple[Any, ...] = (
    forking.forks,
    forking.lets_it_go,
    forking.fork_reports,
    forking.terminates,
    forking.waits_for,
    forking.exits_beside,
    forking.exits_beside_its_provider,
    forking.stops_its_loop,
)


@pytest.fixture
async def harness(connection: Connection, client: aredis.Redis) -> AsyncIterator[Harness]:
    """A queue with these handlers, whose subprocesses have a short grace period."""
    harness = build(connection, client, kill_grace_sec=0.3)
    for function in (functions.where_on_a_loop, *HANDLERS):
        harness.queue.task(function.__name__, kind="process")(function)
    yield harness
    await harness.queue.aclose()


async def run(harness: Harness, function: Any, payload: Any = None) -> Any:
    """A handle of a task of a function."""
    return await harness.queue.enqueue(function.__name__, payload or {}, max_attempts=1)


async def test_a_fork_that_returns_settles_nothing(harness: Harness, tmp_path: Path) -> None:
    go, gone = tmp_path / "go", tmp_path / "gone"
    async with working(harness.queue, concurrency=1):
        first = await run(harness, forking.forks, {"go": str(go), "gone": str(gone)})
        assert await first.result(timeout=30) == "original"

        second = await run(harness, forking.lets_it_go, {"go": str(go), "gone": str(gone)})
        assert await second.result(timeout=30) == "mine"

    assert await first.result(timeout=1) == "original"


async def test_a_fork_may_log_and_cannot_use_the_context(
    harness: Harness, capfd: pytest.CaptureFixture[str]
) -> None:
    async with working(harness.queue):
        handle = await run(harness, forking.fork_reports)

        assert await handle.result(timeout=30) == "RuntimeError"

    assert (await handle.task()).progress is None
    assert "logged by the fork" in capfd.readouterr().err


async def test_a_fork_can_be_terminated(harness: Harness) -> None:
    async with working(harness.queue):
        handle = await run(harness, forking.terminates)

        assert await handle.result(timeout=30) == -15


async def test_a_message_of_another_attempt_is_dropped(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "go"
    async with working(harness.queue) as worker:
        handle = await run(harness, forking.waits_for, {"path": str(path)})
        await until(lambda: any(one.busy for one in worker.executor.runners.subprocesses.all))
        (subprocess,) = worker.executor.runners.subprocesses.all
        assert subprocess.ctx is not None
        token = subprocess.ctx.token
        for stray in (
            Ended(b'"stray"', handle.id, "1:other", subprocess.pid),
            Ended(b'"stray"', "task_other", token, subprocess.pid),
            Ended(b'"stray"', handle.id, token, subprocess.pid + 1),
            Begun(handle.id, "1:other", subprocess.pid),
        ):
            await subprocess.take(stray)
        path.touch()

        assert await handle.result(timeout=30) == "mine"

    assert [line.message for line in caplog.records].count(
        "message of another attempt dropped"
    ) == 4


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (forking.exits_beside, "SystemExit: 3"),
        (forking.exits_beside_its_provider, "SystemExit: 3"),
        (forking.stops_its_loop, "Event loop stopped"),
    ],
)
async def test_a_process_whose_loop_is_broken_is_not_used_again(
    harness: Harness, function: Any, words: str
) -> None:
    async with working(harness.queue, concurrency=1):
        before = await (await run(harness, functions.where_on_a_loop)).result(timeout=30)
        broken = await run(harness, function)
        with pytest.raises(TaskDead, match=words):
            await broken.result(timeout=30)
        after = [
            await (await run(harness, functions.where_on_a_loop)).result(timeout=30) for _ in "12"
        ]

    assert len(set(after)) == 1
    assert before not in after


async def test_a_retired_process_ends_soon(harness: Harness) -> None:
    async with working(harness.queue) as worker:
        with pytest.raises(TaskDead):
            await (await run(harness, forking.stops_its_loop)).result(timeout=30)

        await until(lambda: not worker.executor.runners.subprocesses.all, within_sec=10)
        assert worker.executor.runners.subprocesses.spare == []
