"""Handlers in processes of their own: used again, told to stop, killed, and never left behind."""

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
from rqueue.hooks import Middleware
from rqueue.model.attempt import Completed, Failed, Reason
from rqueue.services.worker import Worker
from rqueue.store.connection import Connection
from tests.house import House, build
from tests.services import kinds
from tests.services.working import ended, until, working


@pytest.fixture
async def house(connection: Connection, client: aredis.Redis) -> AsyncIterator[House]:
    """A queue whose processes have little grace."""
    house = build(connection, client, kill_grace_sec=0.3)
    yield house
    await house.queue.aclose()


def children(worker: Worker) -> set[int]:
    return {child.process.pid for child in worker.desk.places.children.all}


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def is_zombie(pid: int) -> bool:
    """Whether it is dead and its new parent has not looked yet."""
    return read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[0] == "Z"


async def pid_in(path: Path) -> int:
    """What a handler wrote, when it has."""
    await until(path.exists, within_sec=30)
    return int(read(path))


def read(path: Path) -> str:
    return path.read_text()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def run(house: House, function: Any, payload: Any = None, **options: Any) -> Any:
    """A handle of a task of a function that runs in a process."""
    house.queue.task(function.__name__, kind="process")(function)
    return await house.queue.enqueue(function.__name__, payload or {}, max_attempts=1, **options)


async def test_processes_are_used_again_and_are_no_more_than_slots(house: House) -> None:
    house.queue.task("plain", kind="process")(kinds.where)
    house.queue.task("async", kind="process")(kinds.where_on_a_loop)
    calls = [house.queue.call(type) for type in ("plain", "async") * 5]
    handles = await house.queue.enqueue_many(calls)

    async with working(house.queue, concurrency=2) as worker:
        found = {await handle.result(timeout=20) for handle in handles}
        left = children(worker)

    assert found <= left
    assert len(left) <= 2
    assert os.getpid() not in left
    assert all(map(is_gone, left))


async def test_a_context_speaks_through_the_worker(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.queue.task("speaks", kind="process")(kinds.speaks)

    async with working(house.queue) as worker:
        handle = await house.queue.enqueue("speaks", {"n": 7}, max_attempts=2)
        await ended(house.queue, handle.id, State.RETRYING)
        await house.make_due(handle.id)
        await house.promoter.tick()
        found: Any = await handle.result(timeout=30)
        assert len(children(worker)) == 1

    task = await house.queue.get(handle.id)
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
    lines = [line for line in caplog.records if line.name == "rqueue.task.speaks"]
    assert [line.getMessage() for line in lines] == ["said by speaks"] * 2
    assert vars(lines[0])["task"] == handle.id


async def test_what_an_attempt_left_behind_does_not_speak_for_the_next(house: House) -> None:
    first = await run(house, kinds.leaves_a_task_behind)
    second = await run(house, kinds.waits_for_it)

    async with working(house.queue, concurrency=1):
        assert await second.result(timeout=30) == [first.id]

    assert (await second.task()).progress is None


async def test_a_plain_function_may_run_a_loop_of_its_own(house: House) -> None:
    handle = await run(house, kinds.speaks_plainly)

    async with working(house.queue):
        assert await handle.result(timeout=30) == "w1"

    assert (await handle.task()).progress == "half"


async def test_it_gets_the_time_it_asks_for(house: House) -> None:
    handle = await run(house, kinds.extends, timeout=0.3)

    async with working(house.queue):
        assert await handle.result(timeout=30) == "in time"


@pytest.mark.parametrize("function", [kinds.provided, kinds.provided_on_a_loop])
async def test_what_is_provided_is_provided_there(
    house: House, tmp_path: Path, function: Callable[..., Any]
) -> None:
    handle = await run(house, function, {"path": str(tmp_path / "end")})

    async with working(house.queue):
        assert await handle.result(timeout=30) == f"opened for {function.__name__}"

    assert (tmp_path / "end").read_text() == "closed"


async def test_steps_around_an_attempt_run_in_the_worker(house: House) -> None:
    seen: list[object] = []

    class Steps(Middleware):
        async def before_attempt(self, ctx: Any) -> None:
            seen.append(os.getpid())

        async def after_attempt(self, ctx: Any, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    house.queue.hooks.middleware.append(Steps())
    handle = await run(house, kinds.echo, {"payload": "abc"})

    async with working(house.queue):
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
    house: House, how: str, words: str
) -> None:
    house.queue.task("where", kind="process")(kinds.where)
    house.queue.task("dies", kind="process")(kinds.dies)
    async with working(house.queue, concurrency=1):
        before = await (await house.queue.enqueue("where")).result(timeout=30)
        handle = await house.queue.enqueue("dies", {"how": how}, max_attempts=1)
        with pytest.raises(TaskDead, match=words) as raised:
            await handle.result(timeout=30)
        after = await (await house.queue.enqueue("where")).result(timeout=30)

    assert raised.value.reason == Reason.CRASH
    assert before != after


async def test_a_process_that_was_killed_while_idle_costs_no_attempt(house: House) -> None:
    house.queue.task("where", kind="process")(kinds.where)
    async with working(house.queue) as worker:
        first: Any = await (await house.queue.enqueue("where", max_attempts=1)).result(timeout=30)
        os.kill(first, signal.SIGKILL)
        await until(lambda: not children(worker))

        assert await (await house.queue.enqueue("where", max_attempts=1)).result(timeout=30)


async def test_a_signal_to_all_processes_is_the_workers_to_answer(
    house: House, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(house, kinds.polite, {"path": str(path)})
    house.queue.task("where", kind="process")(kinds.where)

    async with working(house.queue) as worker:
        pid = await pid_in(path)
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        await (await house.queue.enqueue("where")).result(timeout=30)

        assert pid in children(worker)
        assert read(path) == str(pid)
        assert await handle.status() is State.RUNNING


async def test_what_does_not_hear_is_killed_with_all_it_started(
    house: House, tmp_path: Path
) -> None:
    deaf = await run(house, kinds.deaf, {"path": str(tmp_path / "deaf")}, timeout=0.5)
    parent = await run(house, kinds.has_a_child, {"path": str(tmp_path / "child")}, timeout=0.5)

    async with working(house.queue) as worker:
        pid, orphan = [await pid_in(tmp_path / name) for name in ("deaf", "child")]
        for handle in (deaf, parent):
            found = await ended(house.queue, handle.id, State.DEAD_LETTERED)
            assert found.failure_reason == Reason.TIMEOUT
        assert not worker.slots.running

        assert is_gone(pid)
        await until(lambda: is_gone(orphan) or is_zombie(orphan))


async def test_a_slot_is_free_when_the_code_is_gone_and_not_before(
    house: House, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(house, kinds.deaf, {"path": str(path)}, timeout=0.5)
    house.queue.task("where", kind="process")(kinds.where)

    async with working(house.queue, concurrency=1):
        pid = await pid_in(path)
        await (await house.queue.enqueue("where")).result(timeout=30)

        assert is_gone(pid)
        assert await handle.status() is State.DEAD_LETTERED


@pytest.mark.parametrize("function", [kinds.polite, kinds.cancelled_on_a_loop])
async def test_what_is_cancelled_is_told_and_its_process_lives_on(
    house: House, tmp_path: Path, function: Callable[..., Awaitable[Any] | str]
) -> None:
    path = tmp_path / "told"
    handle = await run(house, function, {"path": str(path)})

    async with working(house.queue) as worker:
        pid = await pid_in(path)
        await house.queue.cancel(handle.id)
        await worker.beat.tick()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=30)
        await until(lambda: read(path) == "told" and not worker.slots.running)

        assert children(worker) == {pid}


async def test_a_worker_that_stops_gives_back_at_once_and_leaves_no_process(
    house: House, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    handle = await run(house, kinds.deaf, {"path": str(path)})
    async with working(house.queue) as worker:
        worker.desk.places.children.grace_sec = 60
        pid = await pid_in(path)

    assert is_gone(pid)
    found = await house.queue.get(handle.id)
    assert (found.state, found.attempts) == (State.READY, 0)


async def test_a_worker_that_drains_lets_it_end(house: House, tmp_path: Path) -> None:
    handle = await run(house, kinds.extends)
    worker = house.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    await until(lambda: children(worker))

    worker.drain()
    await asyncio.wait_for(running, 20)

    assert await handle.result(timeout=1) == "in time"
    assert not children(worker)


async def test_logs_reach_the_workers_own(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rqueue.task")
    caplog.set_level(logging.DEBUG, "rqueue")
    handle = await run(house, kinds.logs)

    async with working(house.queue):
        await handle.result(timeout=30)

    names = ("app", "rqueue.task.logs")
    lines = [(line.name, line.getMessage()) for line in caplog.records if line.name in names]
    assert lines == [("app", "number 7"), ("rqueue.task.logs", "asked for")]


async def test_large_arguments_pass(house: House) -> None:
    handle = await run(house, kinds.echo, {"payload": "x" * 200_000})

    async with working(house.queue):
        assert await handle.result(timeout=30) == 200_000


async def test_nothing_is_left_open_after_many_tasks(house: House) -> None:
    house.queue.task("where", kind="process")(kinds.where)
    house.queue.task("dies", kind="process")(kinds.dies)
    async with working(house.queue, concurrency=2) as worker:
        await (await house.queue.enqueue("where")).result(timeout=30)
        await until(lambda: len(children(worker)) == 1)
        before = open_files()
        for _ in range(2):
            handles = await house.queue.enqueue_many([house.queue.call("where")] * 25)
            for handle in handles:
                await handle.result(timeout=30)
            dead = await house.queue.enqueue("dies", {"how": "exit"}, max_attempts=1)
            await ended(house.queue, dead.id, State.DEAD_LETTERED)
        left = children(worker)
        after = open_files()

    assert after - before <= len(left) - 1
    assert open_files() < before
