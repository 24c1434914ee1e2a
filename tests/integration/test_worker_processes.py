"""Workers as real processes, ended by real signals: no task is lost or completed twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rqueue import State
from tests.harness import NAME, Harness, opened
from tests.processes import Process, killed
from tests.queue.until import until
from tests.servers import Server

LEASE_SEC = 3.0
APP = f'''
import asyncio, os, time
from rqueue import Context, Queue

queue = Queue("{NAME}", lease_sec={LEASE_SEC})

@queue.task("nap")
async def nap(ctx: Context, seconds: float) -> int:
    await ctx.progress("begun")
    await asyncio.sleep(seconds)
    return os.getpid()

@queue.task("block")
async def block(ctx: Context, seconds: float) -> str:
    await ctx.progress("begun")
    time.sleep(seconds)
    return "kept"

@queue.task("die")
async def die(ctx: Context) -> str:
    if ctx.attempt == 1:
        os.kill(os.getpid(), 9)
    return "lives"

@queue.task("leave")
async def leave(ctx: Context) -> str:
    if ctx.attempt == 1:
        os._exit(5)
    return "stayed"
'''


@contextmanager
def worker(server: Server, folder: Path, *options: str) -> Iterator[Process]:
    """`rqueue worker` in a process, killed at the end of the block if it still runs."""
    (folder / "app.py").write_text(APP)
    process = subprocess.Popen(
        [sys.executable, "-m", "rqueue", "worker", "app:queue", "--concurrency", "4", *options],
        cwd=folder,
        env={**os.environ, "RQUEUE_REDIS_URL": server.url},
    )
    with killed(process):
        yield process


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey, lease_sec=LEASE_SEC) as harness:
        yield harness


async def begun(harness: Harness, task: str) -> None:
    """Waits until the handler of a task has begun."""

    async def has_begun() -> bool:
        return (await harness.task(task)).progress == "begun"

    await until(has_begun)


async def test_sigterm_lets_running_tasks_end_and_claims_no_more(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path) as process:
        first = await harness.queue.enqueue("nap", {"seconds": 1})
        await begun(harness, first.id)
        process.send_signal(signal.SIGTERM)
        result = await first.result(timeout=20)
        second = await harness.queue.enqueue("nap", {"seconds": 0})
        code = process.wait(20)

    assert (result, code) == (process.pid, 0)
    assert await second.status() is State.READY


@pytest.mark.parametrize("how", ["the grace is over", "a second signal"])
async def test_tasks_that_exceed_the_grace_period_are_released_without_an_attempt(
    harness: Harness, valkey: Server, tmp_path: Path, how: str
) -> None:
    grace = "0.5" if how == "the grace is over" else "60"
    with worker(valkey, tmp_path, "--grace", grace) as process:
        handle = await harness.queue.enqueue("nap", {"seconds": 60})
        await begun(harness, handle.id)
        process.send_signal(signal.SIGTERM)
        if how == "a second signal":
            process.send_signal(signal.SIGINT)
        code = process.wait(20)

    task = await harness.task(handle.id)
    assert code == 0
    assert (task.state, task.attempts) == (State.READY, 0)


async def test_the_tasks_of_a_killed_worker_run_on_another(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path) as lost, worker(valkey, tmp_path) as other:
        handles = await harness.queue.enqueue_many(
            [harness.queue.call("nap", {"seconds": 1}) for _ in range(8)]
        )
        for handle in handles:
            await begun(harness, handle.id)
        lost.kill()
        results = [await handle.result(timeout=30) for handle in handles]

    done = (await harness.queue.counts())[State.COMPLETED]
    assert done == len(handles)
    assert results.count(other.pid) >= 4


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path, "--no-scheduler"), worker(valkey, tmp_path):
        handle = await harness.queue.enqueue("block", {"seconds": 2 * LEASE_SEC})
        result = await handle.result(timeout=30)

    task = await harness.task(handle.id)
    assert (result, task.epoch, task.reclaims) == ("kept", 1, 0)


async def test_a_subprocess_killed_by_its_task_is_replaced(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path, "--processes", "2") as process:
        handle = await harness.queue.enqueue("die", retry={"strategy": "immediate"})
        result = await handle.result(timeout=30)
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)

    assert (result, code) == ("lives", 0)
    assert (await harness.task(handle.id)).reclaims == 1


async def test_a_task_that_exits_with_the_code_of_a_configuration_error_stops_no_other_subprocess(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    # It is the first log line of the supervisor.
    handle = await harness.queue.enqueue("leave", retry={"strategy": "immediate"})

    with worker(valkey, tmp_path, "--processes", "2") as process:
        result = await handle.result(timeout=30)
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)

    assert (result, code) == ("stayed", 0)


async def test_a_worker_continues_after_a_server_outage(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path):
        first = await harness.queue.enqueue("nap", {"seconds": 0})
        await first.result(timeout=20)
        await harness.client.client_kill_filter(_type="normal", skipme=True)
        second = await harness.queue.enqueue("nap", {"seconds": 0})
        await second.result(timeout=20)


def test_a_missing_module_is_reported_in_one_line(valkey: Server, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "rqueue", "worker", "nowhere:queue"],
        cwd=tmp_path,
        env={**os.environ, "RQUEUE_REDIS_URL": valkey.url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 5
    assert found.stderr.count("\n") == 1
    assert "there is no module nowhere" in found.stderr
