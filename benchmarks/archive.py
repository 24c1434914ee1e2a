"""The rate of the archiver, compared with the rate at which a worker completes tasks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.environment import Environment, timed
from benchmarks.ours import produce
from benchmarks.table import Row
from rqueue import Queue, embedded
from rqueue.archive.archiver import Archiver
from rqueue.archive.connection import Archive
from rqueue.archive.writer import Writer
from rqueue.clock import SYSTEM

TASKS = 20_000
RATE = 10_000
SLOTS = 100


async def rows(env: Environment, runs: int) -> list[Row]:
    """Tasks a second from the outbox into a PostgreSQL on this machine, compared with the rate at
    which a worker process completes them; one after the other.
    """
    with database() as url:
        archive = Archive(lambda: url, own=True)
        archiver = Archiver(
            env.queue._internals.shard,
            env.queue._internals.runtime.reader,
            Writer(archive, env.queue.name, SYSTEM),
            name="bench",
        )
        pairs = []
        for _ in range(runs):
            await env.empty()
            await produce(env, TASKS)
            worked = TASKS / await timed(partial(work, env))
            pairs.append((TASKS / await timed(partial(drain, archiver)), worked))
        await archive.aclose()
    ours, workers = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    goal = min(RATE, workers)
    target = f">= {RATE:,} or the worker's rate"
    return [Row("archiver / worker with 100 slots", "tasks/s", ours, workers, target,
                ours / goal, ours >= goal)]  # fmt: skip


@contextmanager
def database() -> Iterator[str]:
    """A new embedded PostgreSQL with its default durability."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-bench-"))
    try:
        yield embedded.start_postgres(folder)
    finally:
        embedded.stop_postgres(folder)
        shutil.rmtree(folder, ignore_errors=True)


async def work(env: Environment) -> None:
    """A worker completes all queued tasks."""
    done = asyncio.Event()
    left = TASKS

    async def noop(data: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    queue = Queue(env.queue.name, runtime=env.queue._internals.runtime)
    queue.task("noop")(noop)
    worker = queue.worker(concurrency=SLOTS)
    running = asyncio.create_task(worker.run())
    await done.wait()
    worker.drain()
    await running


async def drain(archiver: Archiver) -> None:
    """Archives until the outbox is empty."""
    while (await archiver.tick()).tasks:
        continue
