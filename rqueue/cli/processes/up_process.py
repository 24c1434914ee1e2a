"""The parts of `rqueue up`: servers, scheduler and worker in one process, and the demo."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue import embedded as servers
from rqueue.cli.config import masked
from rqueue.cli.output.next_steps import steps
from rqueue.cli.output.tables import note
from rqueue.cli.processes import demo
from rqueue.cli.processes.loop import run
from rqueue.cli.processes.serving import load
from rqueue.cli.session import NO_QUEUE
from rqueue.cli.top import View, follow, live
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.gauges import GAUGES
from rqueue.process.worker_process import WorkerProcess
from rqueue.settings.load import Settings, from_environment, from_file, merged, variable_of

if TYPE_CHECKING:
    from rqueue.process.monitor import Ports
    from rqueue.queue import Queue

INTERVAL_SEC = 0.5
EMBEDDED = "RQUEUE_EMBEDDED"


def run_up(
    app: str | None, ports: Ports, *, concurrency: int, grace_sec: float, embedded: bool
) -> None:
    """Serves the queue at MODULE:QUEUE, or the demo's queue, until it is stopped."""
    queue = load(app) if app is not None else demo.build()
    worker = queue.worker(concurrency=concurrency)
    process = ViewedProcess(
        [worker],
        [queue.scheduler(worker.name)],
        grace_sec=grace_sec,
        gauges=GAUGES,
        ports=ports,
    )
    if app is None:
        run(show(queue, process))
        click.echo(steps(queue.name, embedded=embedded, archive=queue.settings.archive_server()))
    else:
        run(serve(queue, process))


def choose_server() -> bool:
    """Selects the embedded server if no server is configured, and returns whether it did."""
    settings = Settings.load(NO_QUEUE)
    wanted = settings.url is None and not settings.embedded
    if wanted:
        os.environ[EMBEDDED] = "1"
    return wanted


def choose_archive(*, wanted: bool) -> None:
    """Starts the embedded PostgreSQL before the queue is created, unless it is not wanted.

    If it cannot be created, the queue runs without an archive. An existing one must start.
    """
    if not wanted:
        os.environ[variable_of("archive")] = "none"
        return
    settings = Settings.load(NO_QUEUE)
    configured = merged([from_environment(Settings), *from_file(Settings, NO_QUEUE)])
    if not settings.embedded or settings.postgres_url or configured.get("archive") == "none":
        return
    try:
        if settings.archive == "postgres" or servers.has_postgres():
            servers.start_postgres(settings.data_dir)
    except (ConfigError, StoreUnavailable) as error:
        if settings.archive == "postgres":
            raise
        note(f"no archive: {error}")


class ViewedProcess(WorkerProcess):
    """A worker process with a live view, which closes when the process begins to drain."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.view_closed = asyncio.Event()

    def drain(self) -> None:
        """Closes the view and drains."""
        self.view_closed.set()
        super().drain()

    def on_view_end(self, _: object) -> None:
        """Drains when the view has ended, also by an error."""
        if not self.view_closed.is_set():
            self.drain()


async def serve(queue: Queue, process: WorkerProcess) -> None:
    """Prints the addresses and runs a worker and a scheduler for the queue."""
    click.echo(
        f"queue {queue.name} on {queue._internals.runtime.connection.address}; stop with Ctrl-C"
    )
    match queue.settings.archive_server():
        case str(url):
            click.echo(f"archive on {masked(url)}")
        case Path() as folder:
            click.echo(f"archive on the embedded PostgreSQL in {folder}/postgres")
    if queue.settings.embedded:
        click.echo(f"to use it with other commands in this directory, set {EMBEDDED}=1")
    async with queue:
        await process.run()


async def show(queue: Queue, process: ViewedProcess) -> None:
    """Serves the demo's queue with its workload, and shows the queue."""
    shown = live_waves(queue, process) if sys.stdout.isatty() else plain_waves(queue, process)
    showing = asyncio.get_running_loop().create_task(shown)
    showing.add_done_callback(process.on_view_end)
    try:
        await serve(queue, process)
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing


async def live_waves(queue: Queue, process: ViewedProcess) -> None:
    """Enqueues waves and shows the queue on the whole terminal until it is stopped."""
    waves = itertools.takewhile(lambda _: not process.view_closed.is_set(), itertools.count())
    producing = asyncio.get_running_loop().create_task(demo.produce(queue, waves))
    try:
        await live(
            queue, interval_sec=INTERVAL_SEC, stop=process.view_closed, leave=process.on_signal
        )
    finally:
        producing.cancel()
    click.echo(
        f"draining: running tasks have {process.grace_sec:g} s to finish; Ctrl-C again stops now"
    )


async def plain_waves(queue: Queue, process: ViewedProcess) -> None:
    """Enqueues a few waves and prints plain lines until all tasks have ended."""
    producing = asyncio.get_running_loop().create_task(demo.produce(queue))
    try:
        async for view in follow(queue, INTERVAL_SEC, process.view_closed):
            click.echo(line(view))
            if producing.done() and view.frame and not view.frame.counts.live:
                producing.result()
                return
    finally:
        producing.cancel()


def line(view: View) -> str:
    """A view as one line."""
    if view.frame is None or view.error:
        return f"server unavailable, retrying: {view.error}"
    counts, rates = view.frame.counts, view.frame.rates
    parts = [f"{state} {number}" for state, number in counts.by_state.items() if number]
    return f"{', '.join(parts)} | {rates.completed if rates else 0:.0f} tasks/s"
