"""What all commands share: --queue, --url and --json, an open queue, and a clean end."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import click

from rqueue.cli.chosen import NO_QUEUE, VARIABLE, chosen_queue, complete_queue, needed_queue
from rqueue.cli.engine import calm, new_loop
from rqueue.cli.exits import INTERRUPTED, TERMINATED
from rqueue.cli.output import Printer
from rqueue.cli.reviewer import os_user
from rqueue.client.claimer import FAREWELLS
from rqueue.queue import Queue

Work = Callable[..., Coroutine[Any, Any, None]]
Command = Callable[..., None]
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def on_queue(work: Work) -> Command:
    """A command on one queue: `work(queue, out, ...)` with the command's own parameters."""

    def run(queue: str | None, **given: Any) -> None:
        perform(opened(work, needed_queue(queue), **given))

    return shared_options(functools.update_wrapper(run, work))


def serving_queue(work: Work) -> Command:
    """A command on one queue that goes on until it is told to end."""

    def run(queue: str | None, **given: Any) -> None:
        calm()
        perform(opened(work, needed_queue(queue), **given), new_loop)

    return shared_options(functools.update_wrapper(run, work))


def on_server(work: Work) -> Command:
    """A command on a server: `work(queue, out, name=...)`; no name where no queue is chosen."""

    def run(queue: str | None, **given: Any) -> None:
        name = chosen_queue(queue)
        perform(opened(work, name or NO_QUEUE, name=name, **given))

    return shared_options(functools.update_wrapper(run, work))


def shared_options(command: Command) -> Command:
    """Adds the options that every command has."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--url", metavar="URL", help="The server, as in RQUEUE_REDIS_URL."),
        click.option(
            "--queue",
            metavar="NAME",
            envvar=VARIABLE,
            shell_complete=complete_queue,
            help=f"The queue. [default: {VARIABLE}, or the only one in rqueue.yaml]",
        ),
    )
    for option in options:
        command = option(command)
    return command


async def opened(
    work: Work, queue_name: str, /, *, url: str | None, as_json: bool, **given: Any
) -> None:
    """Does the work with a queue that is closed in the end."""
    async with Queue(queue_name, url=url) as queue:
        queue.desk.reviewer = queue.settings.principal or os_user()
        try:
            await work(queue, Printer(as_json), **given)
        finally:
            # A claim that was given up gives back what it was handed before the loop ends.
            await asyncio.gather(*FAREWELLS)


def perform(work: Coroutine[Any, Any, None], loop: NewLoop | None = None) -> None:
    """Runs a command; SIGINT and SIGTERM end it, after it has given back what it was handed."""
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(stoppable(work))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None


async def stoppable(work: Coroutine[Any, Any, None]) -> None:
    """The work, cancelled by SIGTERM as asyncio cancels it by SIGINT."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await work
