"""`rqueue up`: everything on one machine, in one process tree, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from rqueue.cli import demo as shop
from rqueue.cli.running import load, run, set_up_logs
from rqueue.errors import ConfigError
from rqueue.model.state import State
from rqueue.services.duty import Duty

if TYPE_CHECKING:
    from rqueue.queue import Queue

LOOK_SEC = 0.5
NEXT = """
what to do next:
  rqueue worker shop.tasks:queue     run your own handlers (docs/cli.md)
  rqueue tasks --queue demo          look at what is there
  docs/guides/tasks.md               write tasks, enqueue, read results
"""


@click.command()
@click.argument("app", metavar="[MODULE:QUEUE]", required=False)
@click.option("--demo", is_flag=True, help="Enqueue a lively workload and show it.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Tasks at once.")
@click.option("--grace", type=click.FloatRange(0), default=10.0, help="Seconds to end in.")
def up(app: str | None, demo: bool, concurrency: int, grace: float) -> None:
    """Start a server, the scheduler and a worker, all in one.

    The server is an embedded Valkey with its data in .rqueue/, or the one that RQUEUE_REDIS_URL
    names. Ctrl-C ends all of it in good order. With --demo and no terminal it ends with its work.
    """
    if not demo and app is None:
        raise ConfigError("MODULE:QUEUE", "names your queue; or use --demo to see one at work")
    set_up_logs()
    if not os.environ.get("RQUEUE_REDIS_URL"):
        os.environ.setdefault("RQUEUE_EMBEDDED", "1")
    queue = load(app) if app is not None else shop.build()
    run(serve(queue, demo=demo, concurrency=concurrency, grace=grace))


async def serve(queue: Queue, *, demo: bool, concurrency: int, grace: float) -> None:
    """A worker and a scheduler for the queue, and the demo beside them."""
    worker = queue.worker(concurrency=concurrency)
    duty = Duty(worker, queue.scheduler(worker.name), grace_sec=grace)
    click.echo(f"queue {queue.name} on {queue.runtime.connection.address}; Ctrl-C ends it")
    async with queue:
        beside = asyncio.get_running_loop().create_task(show(queue, duty)) if demo else None
        try:
            await duty.run()
        finally:
            if beside is not None:
                beside.cancel()
                await asyncio.gather(beside, return_exceptions=True)
    if demo:
        click.echo(NEXT)


async def show(queue: Queue, duty: Duty) -> None:
    """Enqueues the workload and prints what becomes of it, until it is done."""
    producing = asyncio.get_running_loop().create_task(shop.produce(queue))
    before, at = (await queue.counts())[State.COMPLETED], time.monotonic()
    while True:
        await asyncio.sleep(LOOK_SEC)
        counts, now = await queue.counts(), time.monotonic()
        done = counts[State.COMPLETED]
        moment = shop.Moment(counts, (done - before) / (now - at))
        before, at = done, now
        click.echo(moment.line)
        busy = [State.PENDING, State.READY, State.CLAIMED, State.RUNNING, State.RETRYING]
        if producing.done() and not any(counts[state] for state in busy):
            producing.result()
            if not sys.stdout.isatty():
                duty.drain()
            return
