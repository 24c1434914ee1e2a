"""The archive beside the worker: what ends must reach PostgreSQL as fast as it ends."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.ours import produce
from benchmarks.stand import Row, Stand, timed
from rqueue import Queue, embedded
from rqueue.archive.archiver import Archiver
from rqueue.archive.connection import Archive
from rqueue.archive.writer import Writer
from rqueue.clock import SYSTEM

TASKS = 20_000
RATE = 10_000
SLOTS = 100


async def rows(stand: Stand, runs: int) -> list[Row]:
    """Tasks a second out of the outbox into a PostgreSQL on this machine, against the rate at
    which a worker process ends them; in turn.
    """
    with database() as url:
        archive = Archive(lambda: url, own=True)
        archiver = Archiver(
            stand.queue._internals.shard,
            stand.queue._internals.runtime.reader,
            Writer(archive, stand.queue.name, SYSTEM),
            name="bench",
        )
        pairs = []
        for _ in range(runs):
            await stand.empty()
            await produce(stand, TASKS)
            worked = TASKS / await timed(partial(work, stand))
            pairs.append((TASKS / await timed(partial(empty, archiver)), worked))
        await archive.aclose()
    ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    goal = min(RATE, theirs)
    target = f">= {RATE:,} or the worker's"
    return [Row("archive / a worker of 100 slots", "tasks/s", ours, theirs, target,
                ours / goal, ours >= goal)]  # fmt: skip


@contextmanager
def database() -> Iterator[str]:
    """An embedded PostgreSQL of its own, as durable as it comes."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-bench-"))
    try:
        yield embedded.start_postgres(folder)
    finally:
        embedded.stop_postgres(folder)
        shutil.rmtree(folder, ignore_errors=True)


async def work(stand: Stand) -> None:
    """A real worker ends all that is queued."""
    done = asyncio.Event()
    left = TASKS

    async def noop(data: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    queue = Queue(stand.queue.name, runtime=stand.queue._internals.runtime)
    queue.task("noop")(noop)
    worker = queue.worker(concurrency=SLOTS)
    running = asyncio.create_task(worker.run())
    await done.wait()
    worker.drain()
    await running


async def empty(archiver: Archiver) -> None:
    """Archives until nothing is left."""
    while (await archiver.tick()).tasks:
        continue
