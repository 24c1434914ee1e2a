"""Schedulers in several processes: one is killed or frozen, and another takes over."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from rqueue import State
from rqueue.process.scheduler import leader, term_sec
from tests.harness import Harness, opened
from tests.processes import Process, killed
from tests.queue.until import until
from tests.servers import Server

LEASE_SEC = 6.0
PROGRAM = f"""
import asyncio, signal, sys
from random import Random
from rqueue.clock import SYSTEM
from rqueue.runtime import open_runtime
from rqueue.process.scheduler import Scheduler, owner_of
from rqueue.services import standard_services
from rqueue.settings.load import Settings

async def main(url, owner):
    settings = Settings(name="sales", url=url, lease_sec={LEASE_SEC})
    runtime = open_runtime(settings)
    services = standard_services(
        runtime.shard, runtime.reader, settings, clock=SYSTEM, random=Random()
    )
    scheduler = Scheduler(runtime.shard, services, owner=owner_of(owner, settings), clock=SYSTEM,
                          random=Random())
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("up", flush=True)
    await scheduler.run(stop)
    await runtime.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def scheduler(server: Server, owner: str) -> Iterator[Process]:
    """A scheduler process, killed at the end of the block if it still runs. It must run before the
    other one ends: a reaper that starts later distrusts the clock at first, and pauses.
    """
    command = [sys.executable, "-c", PROGRAM, server.url, owner]
    with killed(subprocess.Popen(command, stdout=subprocess.PIPE)) as process:
        assert process.stdout is not None
        with process.stdout as out:
            assert out.readline() == b"up\n"
            yield process


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey, lease_sec=LEASE_SEC) as harness:
        yield harness


async def led_by(harness: Harness, owner: str) -> float:
    """Waits until this one leads. Returns how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def leads() -> bool:
        term = await leader(harness.queue._internals.shard)
        return term is not None and term.owner == owner

    await until(leads)
    return loop.time() - began


ENDS: dict[str, Callable[[Process], None]] = {
    "killed": Process.kill,
    "frozen": lambda process: process.send_signal(signal.SIGSTOP),
}


@pytest.mark.parametrize("end", ENDS)
async def test_another_scheduler_takes_over_within_a_term_and_no_task_moves_twice(
    harness: Harness, valkey: Server, end: str
) -> None:
    with scheduler(valkey, "a") as first:
        await led_by(harness, "a")
        with scheduler(valkey, "b"):
            ENDS[end](first)
            took_sec = await led_by(harness, "b")
            await harness.queue.enqueue("soon", {}, delay=0.1)
            (soon,) = await harness.queue.claim(worker="w2", types=["soon"], wait=10)
            await soon.start()
            lease = await harness.running("lost", max_attempts=3)
            await harness.age(lease, LEASE_SEC * 2)

            # Not by its state: it is retried at once.
            async def reaped() -> bool:
                return (await harness.task(lease.id)).reclaims > 0

            await until(reaped)
            first.send_signal(signal.SIGCONT)
            await soon.complete()

            # A busy machine adds to the term.
            assert took_sec < term_sec(LEASE_SEC) + 10
            task = await harness.task(lease.id)
            assert (task.attempts, task.reclaims) == (1, 1)
            assert (await harness.queue.counts())[State.COMPLETED] == 1


async def test_a_terminated_scheduler_yields_to_another(harness: Harness, valkey: Server) -> None:
    with scheduler(valkey, "a") as process:
        await led_by(harness, "a")

        process.terminate()
        assert process.wait(10) == 0

    assert await leader(harness.queue._internals.shard) is None
