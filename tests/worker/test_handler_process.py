"""Handlers in subprocesses, which are reused, stopped, killed, and never left behind."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue import State
from rqueue.errors import TaskCancelled, TaskDead
from rqueue.middleware import Middleware
from rqueue.store.connection import Connection
from rqueue.task.attempt.outcome import Completed, Failed, Reason
from rqueue.worker.worker import Worker
from tests.harness import Harness, build
from tests.worker import functions
from tests.worker.running import ended, until, working


@pytest.fixture
async def harness(connection: Connection, client: aredis.Redis) -> AsyncIterator[Harness]:
    """A queue whose subprocesses have a short grace period."""
    harness = build(connection, client, kill_grace_sec=0.3)
    yield harness
    await harness.queue.aclose()


def subprocess_pids(worker: Worker) -> set[int]:
    return {one.pid for one in worker.executor.runners.subprocesses.all}


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def is_zombie(pid: int) -> bool:
    """Whether the process is dead and its parent has not waited for it yet."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[0] == "Z"


async def pid_in(path: Path) -> int:
    """The process id that a handler writes to a file."""
    await until(path.exists, within_sec=30)
    return int(read(path))


def read(path: Path) -> str:
    return path.read_text()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def run(harness: Harness, function: Any, payload: Any = None, **options: Any) -> Any:
    """A handle of a task of a function that runs in a process."""
    harness.queue.task(function.__name__, kind="process")(function)
    return await harness.queue.enqueue(function.__name__, payload or {}, max_attempts=1, **options)


async def test_processes_are_reused_and_never_more_than_slots(harness: Harness) -> None:
    harness.queue.task("plain", kind="process")(functions.where)
    harness.queue.task("async", kind="process")(functions.where_on_a_loop)
    calls = [harness.queue.call(type) for type in ("plain", "async") * 5]
    handles = await harness.queue.enqueue_many(calls)

    async with working(harness.queue, concurrency=2) as worker:
        found = {await handle.result(timeout=20) for handle in handles}
        left = subprocess_pids(worker)

    assert found <= left
    assert len(left) <= 2
    assert os.getpid() not in left
    assert all(map(is_gone, left))


async def test_a_context_sends_its_requests_through_the_worker(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.queue.task("reports", kind="process")(functions.reports)

    async with working(harness.queue) as worker:
        handle = await harness.queue.enqueue("reports", {"n": 7}, max_attempts=2)
        await ended(harness.queue, handle.id, State.RETRYING)
        await harness.make_due(handle.id)
        await harness.promoter.tick()
        found: Any = await handle.result(timeout=30)
        assert len(subprocess_pids(worker)) == 1

    task = await harness.queue.get(handle.id)
    assert found == {
        "before": {"at": 7},
        "failures": ["once more"],
        "attempt": 2,
        "token": found["token"],
        "cancelled": False,
        "state": {},
    }
    assert (task.progress, task.checkpoint, task.logs) == ({"n": 7}, {"at": 7}, ("a line",) * 2)
    assert task.cost_usd == 1.0
    lines = [line for line in caplog.records if line.name == "rqueue.task.reports"]
    assert [line.getMessage() for line in lines] == ["logged by reports"] * 2
    assert vars(lines[0])["task"] == handle.id


async def test_a_leftover_task_of_an_attempt_does_not_report_for_the_next(harness: Harness) -> None:
    first = await run(harness, functions.leaves_a_task_behind)
    second = await run(harness, functions.waits_for_it)

    async with working(harness.queue, concurrency=1):
        assert await second.result(timeout=30) == [first.id]

    assert (await second.task()).progress is None


async def test_a_plain_function_may_run_its_own_event_loop(harness: Harness) -> None:
    handle = await run(harness, functions.prints)

    async with working(harness.queue):
        assert await handle.result(timeout=30) == "w1"

    assert (await handle.task()).progress == "half"


async def test_a_handler_in_a_process_can_extend_its_timeout(harness: Harness) -> None:
    handle = await run(harness, functions.extends, timeout=0.3)

    async with working(harness.queue):
        assert await handle.result(timeout=30) == "in time"


@pytest.mark.parametrize("function", [functions.provided, functions.provided_on_a_loop])
async def test_dependencies_are_provided_in_the_process(
    harness: Harness, tmp_path: Path, function: Callable[..., Any]
) -> None:
    handle = await run(harness, function, {"path": str(tmp_path / "end")})

    async with working(harness.queue):
        assert await handle.result(timeout=30) == f"opened for {function.__name__}"

    assert (tmp_path / "end").read_text() == "closed"


async def test_hooks_around_an_attempt_run_in_the_worker(harness: Harness) -> None:
    seen: list[object] = []

    class Steps(Middleware):
        async def before_attempt(self, ctx: Any) -> None:
            seen.append(os.getpid())

        async def after_attempt(self, ctx: Any, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    harness.queue._internals.hooks.middleware.append(Steps())
    handle = await run(harness, functions.echo, {"payload": "abc"})

    async with working(harness.queue):
        await handle.result(timeout=30)

    assert seen == [os.getpid(), Completed(3)]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", "exit code 3"),
        ("kill", "SIGKILL: perhaps it used too much memory"),
        ("segfault", "SIGSEGV"),
    ],
)
async def test_a_process_that_dies_fails_its_attempt_and_is_replaced(
    harness: Harness, how: str, words: str
) -> None:
    harness.queue.task("where", kind="process")(functions.where)
    harness.queue.task("dies", kind="process")(functions.dies)
    async with working(harness.queue, concurrency=1):
        before = await (await harness.queue.enqueue("where")).result(timeout=30)
        handle = await harness.queue.enqueue("dies", {"how": how}, max_attempts=1)
        with pytest.raises(TaskDead, match=words) as raised:
            await handle.result(timeout=30)
        after = await (await harness.queue.enqueue("where")).result(timeout=30)

    assert raised.value.reason == Reason.CRASH
    assert before != after


async def test_a_process_that_was_killed_while_idle_costs_no_attempt(harness: Harness) -> None:
    harness.queue.task("where", kind="process")(functions.where)
    async with working(harness.queue) as worker:
        first: Any = await (await harness.queue.enqueue("where", max_attempts=1)).result(timeout=30)
        os.kill(first, signal.SIGKILL)
        await until(lambda: not subprocess_pids(worker))

        assert await (await harness.queue.enqueue("where", max_attempts=1)).result(timeout=30)


async def test_a_signal_to_all_processes_is_handled_by_the_worker(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(harness, functions.stops, {"path": str(path)})
    harness.queue.task("where", kind="process")(functions.where)

    async with working(harness.queue) as worker:
        pid = await pid_in(path)
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        await (await harness.queue.enqueue("where")).result(timeout=30)

        assert pid in subprocess_pids(worker)
        assert read(path) == str(pid)
        assert await handle.status() is State.RUNNING


async def test_a_handler_that_does_not_stop_is_killed_with_its_subprocesses(
    harness: Harness, tmp_path: Path
) -> None:
    ignores_stop = await run(
        harness,
        functions.ignores_stop,
        {"path": str(tmp_path / "ignores_stop")},
        timeout=0.5,
    )
    parent = await run(
        harness, functions.starts_a_process, {"path": str(tmp_path / "started")}, timeout=0.5
    )

    async with working(harness.queue) as worker:
        pid, orphan = [await pid_in(tmp_path / name) for name in ("ignores_stop", "started")]
        for handle in (ignores_stop, parent):
            found = await ended(harness.queue, handle.id, State.DEAD_LETTERED)
            assert found.failure_reason == Reason.TIMEOUT
        assert not worker.slots.running

        assert is_gone(pid)
        await until(lambda: is_gone(orphan) or is_zombie(orphan))


async def test_a_slot_is_freed_only_when_the_code_has_ended(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(harness, functions.ignores_stop, {"path": str(path)}, timeout=0.5)
    harness.queue.task("where", kind="process")(functions.where)

    async with working(harness.queue, concurrency=1):
        pid = await pid_in(path)
        await (await harness.queue.enqueue("where")).result(timeout=30)

        assert is_gone(pid)
        assert await handle.status() is State.DEAD_LETTERED


@pytest.mark.parametrize("function", [functions.stops, functions.cancelled_on_a_loop])
async def test_a_cancelled_attempt_stops_and_its_process_is_reused(
    harness: Harness, tmp_path: Path, function: Callable[..., Awaitable[Any] | str]
) -> None:
    path = tmp_path / "stopped"
    handle = await run(harness, function, {"path": str(path)})

    async with working(harness.queue) as worker:
        pid = await pid_in(path)
        await harness.queue.cancel(handle.id)
        await worker.beat.tick()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=30)
        await until(lambda: read(path) == "stopped" and not worker.slots.running)

        assert subprocess_pids(worker) == {pid}


async def test_a_worker_that_stops_releases_its_tasks_and_leaves_no_process(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(harness, functions.ignores_stop, {"path": str(path)})
    async with working(harness.queue) as worker:
        worker.executor.runners.subprocesses.grace_sec = 60
        pid = await pid_in(path)

    assert is_gone(pid)
    found = await harness.queue.get(handle.id)
    assert (found.state, found.attempts) == (State.READY, 0)


async def test_a_draining_worker_waits_for_a_process(harness: Harness, tmp_path: Path) -> None:
    handle = await run(harness, functions.extends)
    worker = harness.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    await until(lambda: subprocess_pids(worker))

    worker.drain()
    await asyncio.wait_for(running, 20)

    assert await handle.result(timeout=1) == "in time"
    assert not subprocess_pids(worker)


async def test_log_records_reach_the_worker(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rqueue.task")
    caplog.set_level(logging.DEBUG, "rqueue")
    handle = await run(harness, functions.logs)

    async with working(harness.queue):
        await handle.result(timeout=30)

    names = ("app", "rqueue.task.logs")
    lines = [(line.name, line.getMessage()) for line in caplog.records if line.name in names]
    assert lines == [("app", "number 7"), ("rqueue.task.logs", "at the level")]


async def test_large_arguments_reach_a_process(harness: Harness) -> None:
    handle = await run(harness, functions.echo, {"payload": "x" * 200_000})

    async with working(harness.queue):
        assert await handle.result(timeout=30) == 200_000


async def test_nothing_is_left_open_after_many_tasks(harness: Harness) -> None:
    harness.queue.task("where", kind="process")(functions.where)
    harness.queue.task("dies", kind="process")(functions.dies)
    async with working(harness.queue, concurrency=2) as worker:
        await (await harness.queue.enqueue("where")).result(timeout=30)
        await until(lambda: len(subprocess_pids(worker)) == 1)
        before = open_files()
        for _ in range(2):
            handles = await harness.queue.enqueue_many([harness.queue.call("where")] * 25)
            for handle in handles:
                await handle.result(timeout=30)
            dead = await harness.queue.enqueue("dies", {"how": "exit"}, max_attempts=1)
            await ended(harness.queue, dead.id, State.DEAD_LETTERED)
        left = subprocess_pids(worker)
        after = open_files()

    assert after - before <= len(left) - 1
    assert open_files() < before
