"""Handlers in threads of a real worker that fork: signals to the forked process do not reach the
worker.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import NAME, Harness, opened
from tests.integration.programs import program
from tests.servers import Server

APP = f'''
import multiprocessing, time
from rqueue import Queue

queue = Queue("{NAME}", lease_sec=3)

@queue.task("terminates")
def terminates(pause: float) -> int:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    time.sleep(pause)
    process.terminate()
    process.join(10)
    return process.exitcode
'''


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey, lease_sec=3) as harness:
        yield harness


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_a_signal_to_a_forked_process_does_not_reach_the_worker(
    harness: Harness, valkey: Server, tmp_path: Path, loop: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    if loop == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ImportError")

    with program(valkey.url, tmp_path, "worker", "app:queue") as running:
        handles = [await harness.queue.enqueue("terminates", {"pause": n}) for n in (0, 0.2, 0)]
        codes = [await handle.result(timeout=30) for handle in handles]
        drained = running.lines("worker draining")
        code = running.end()

    assert (codes, drained, code) == ([-signal.SIGTERM] * 3, [], 0)
