"""`rqueue up`: everything on one machine, in one process tree, until Ctrl-C."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue import embedded as servers
from rqueue.cli import demo as shop
from rqueue.cli.chosen import NO_QUEUE
from rqueue.cli.config import masked
from rqueue.cli.frame import View, follow
from rqueue.cli.looping import run
from rqueue.cli.next_steps import steps
from rqueue.cli.observing import observable, ports_of, set_up_logs
from rqueue.cli.output import note
from rqueue.cli.running import load
from rqueue.cli.seconds import SECONDS
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services.duty import Duty
from rqueue.settings import Settings
from rqueue.sources import from_environment, from_file, merged, variable_of

if TYPE_CHECKING:
    from rqueue.queue import Queue

LOOK_SEC = 0.5
EMBEDDED = "RQUEUE_EMBEDDED"


@click.command()
@click.argument("app", metavar="[MODULE:QUEUE]", required=False)
@click.option("--demo", is_flag=True, help="Enqueue a lively workload and show it.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Tasks at once.")
@click.option("--grace", type=SECONDS, default=10.0, help="Seconds to end in.")
@click.option("--no-archive", is_flag=True, help="Start no PostgreSQL for what has ended.")
@observable
def up(app: str | None, demo: bool, concurrency: int, grace: float, **options: Any) -> None:
    """Start the servers, the scheduler and a worker, all in one.

    The server is the one that RQUEUE_REDIS_URL or rqueue.yaml names, else an embedded Valkey with
    its data in .rqueue/. What has ended goes to the PostgreSQL that RQUEUE_POSTGRES_URL names; an
    embedded Valkey has an embedded PostgreSQL beside it. Ctrl-C ends all of it in good order. With
    --demo and no terminal it ends with its work.
    """
    if demo == (app is not None):
        raise ConfigError("MODULE:QUEUE", "names your queue; or use --demo to see one at work")
    ports = ports_of(options)
    if demo and options["log_level"] is None:
        # The view says the rest, and its picture must not be written over.
        logging.getLogger("rqueue").setLevel("ERROR")
    set_up_logs(options)
    embedded = choose_server()
    choose_archive(wanted=not options["no_archive"])
    queue = load(app) if app is not None else shop.build()
    worker = queue.worker(concurrency=concurrency)
    duty = Shown([worker], [queue.scheduler(worker.name)], grace_sec=grace, ports=ports)
    if demo:
        run(show(queue, duty))
        click.echo(steps(queue.name, embedded=embedded, archive=queue.settings.archive_server()))
    else:
        run(serve(queue, duty))


def choose_server() -> bool:
    """Wants an embedded server for this run where none is named; whether that was so."""
    settings = Settings.load(NO_QUEUE)
    wanted = settings.url is None and not settings.embedded
    if wanted:
        os.environ[EMBEDDED] = "1"
    return wanted


def choose_archive(*, wanted: bool) -> None:
    """Starts the embedded PostgreSQL before the queue looks for it, unless it is not to be.

    Where it cannot be made, the queue does without; one that is there already must start.
    """
    if not wanted:
        os.environ[variable_of("archive")] = "none"
        return
    settings = Settings.load(NO_QUEUE)
    said = merged([from_environment(Settings), *from_file(Settings, NO_QUEUE)])
    if not settings.embedded or settings.postgres_url or said.get("archive") == "none":
        return
    try:
        if settings.archive == "postgres" or servers.has_postgres():
            servers.start_postgres(settings.data_dir)
    except (ConfigError, StoreUnavailable) as error:
        if settings.archive == "postgres":
            raise
        note(f"no archive: {error}")


class Shown(Duty):
    """On duty while it is shown; the picture is over when the end begins."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.over = asyncio.Event()

    def drain(self) -> None:
        """Ends the picture, and drains."""
        self.over.set()
        super().drain()

    def shown(self, _: object) -> None:
        """The show has ended, by itself or by an error: the work ends with it."""
        if not self.over.is_set():
            self.drain()


async def serve(queue: Queue, duty: Duty) -> None:
    """A worker and a scheduler for the queue."""
    click.echo(f"queue {queue.name} on {queue.runtime.connection.address}; Ctrl-C ends it")
    match queue.settings.archive_server():
        case str(url):
            click.echo(f"archive on {masked(url)}")
        case Path() as folder:
            click.echo(f"archive on the embedded PostgreSQL in {folder}/postgres")
    if queue.settings.embedded:
        click.echo(f"other commands in this directory reach it with {EMBEDDED}=1 set")
    async with queue:
        await duty.run()


async def show(queue: Queue, duty: Shown) -> None:
    """Serves the demo's queue with its workload beside, and shows what becomes of it."""
    shown = live_waves(queue, duty) if sys.stdout.isatty() else plain_waves(queue, duty)
    showing = asyncio.get_running_loop().create_task(shown)
    showing.add_done_callback(duty.shown)
    try:
        await serve(queue, duty)
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing


async def live_waves(queue: Queue, duty: Shown) -> None:
    """Waves without end, on the whole terminal, until it is asked to end."""
    # Read here: rich takes a tenth of a second.
    from rqueue.cli.screen import live  # noqa: PLC0415

    waves = itertools.takewhile(lambda _: not duty.over.is_set(), itertools.count())
    producing = asyncio.get_running_loop().create_task(shop.produce(queue, waves))
    try:
        await live(queue, interval_sec=LOOK_SEC, stop=duty.over, leave=duty.ask)
    finally:
        producing.cancel()
    click.echo(f"ending: what runs may end within {duty.grace_sec:g} s; Ctrl-C again ends at once")


async def plain_waves(queue: Queue, duty: Shown) -> None:
    """A few waves in plain lines, until all is done."""
    producing = asyncio.get_running_loop().create_task(shop.produce(queue))
    try:
        async for view in follow(queue, LOOK_SEC, duty.over):
            click.echo(line(view))
            if producing.done() and view.frame and not view.frame.counts.live:
                producing.result()
                return
    finally:
        producing.cancel()


def line(view: View) -> str:
    """A view in one line."""
    if view.frame is None or view.trouble:
        return f"server away, trying again: {view.trouble}"
    counts, rates = view.frame.counts, view.frame.rates
    parts = [f"{state} {number}" for state, number in counts.by_state.items() if number]
    return f"{', '.join(parts)} | {rates.completed if rates else 0:.0f} tasks/s"
