"""`rqueue worker` and `rqueue scheduler`: the processes that do the work."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.session import on_queue
from rqueue.errors import ConfigError
from rqueue.queue import Queue
from rqueue.services.duty import Duty, Limits
from rqueue.services.processes import Processes

if TYPE_CHECKING:
    from rqueue.cli.output import Printer


@click.command()
@click.argument("app", metavar="MODULE:QUEUE")
@click.option("--processes", type=click.IntRange(1), default=1, help="Worker processes.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Tasks at once, each.")
@click.option("--type", "types", multiple=True, help="Serve these types only.")
@click.option("--capability", "capabilities", multiple=True, help="What this worker can do.")
@click.option("--agent", "agents", multiple=True, help="Serve tasks for these agents too.")
@click.option("--name", help="The worker's name. [default: host:pid:random]")
@click.option("--grace", type=click.FloatRange(0), default=30.0, help="Seconds to end in.")
@click.option("--max-tasks", type=click.IntRange(1), help="A fresh process after so many tasks.")
@click.option("--max-rss", type=click.IntRange(1), help="A fresh process above so many MB.")
@click.option("--no-scheduler", is_flag=True, help="Take no part in the scheduler's election.")
def worker(app: str, processes: int, **options: Any) -> None:
    """Run the tasks of a queue.

    MODULE:QUEUE is where the queue stands that the handlers are registered with, such as
    shop.tasks:queue. SIGTERM lets what runs end within --grace; a second one gives it back at once.
    """
    set_up_logs()
    if processes > 1:
        words = [word for word in sys.argv[1:] if word]
        command = [sys.executable, "-m", "rqueue", *without(words, "--processes")]
        run(Processes(command, processes).run())
    else:
        run(work(load(app), **options))


async def work(
    queue: Queue,
    *,
    grace: float,
    max_tasks: int | None,
    max_rss: int | None,
    no_scheduler: bool,
    types: tuple[str, ...],
    **options: Any,
) -> None:
    """One worker process."""
    if not queue.registry.handlers:
        raise ConfigError("MODULE:QUEUE", f"queue {queue.name} has no handlers: use @queue.task")
    made = queue.worker(types=types or None, **options)
    scheduler = None if no_scheduler else queue.scheduler(made.name)
    limits = Limits(max_tasks=max_tasks, max_rss_mb=max_rss)
    logging.getLogger("rqueue.worker").info(
        "%s serves %s of queue %s, %d at once",
        made.name, ", ".join(sorted(types or queue.registry.handlers)), queue.name, made.slots.size,
    )  # fmt: skip
    async with queue:
        await Duty(made, scheduler, grace_sec=grace, limits=limits).run()


@click.command()
@on_queue
async def scheduler(queue: Queue, out: Printer) -> None:
    """Run the services of a queue: promoter, reaper, inbox, sweeps.

    Any number may run; one of them leads, the others stand by.
    """
    set_up_logs()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await queue.scheduler().run(stop)


def load(app: str) -> Queue:
    """The queue at MODULE:QUEUE; the working directory is looked in too."""
    module, _, attribute = app.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), attribute or "queue")
    except ModuleNotFoundError as error:
        raise ConfigError("MODULE:QUEUE", f"there is no module {error.name}") from error
    except AttributeError as error:
        raise ConfigError("MODULE:QUEUE", f"{module} has no {attribute or 'queue'}") from error
    if not isinstance(found, Queue):
        raise ConfigError("MODULE:QUEUE", f"{app} is a {type(found).__name__}, not a Queue")
    return found


def without(words: list[str], option: str) -> list[str]:
    """The words of a command line without one option and its value."""
    left: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith(f"{option}="):
            skip = False
        elif word == option:
            skip = True
        else:
            left.append(word)
    return left


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs it on uvloop where that is installed."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
    if any(not thread.daemon for thread in threading.enumerate()[1:]):
        # A handler that does not end in its thread: its task was given back, it is not waited for.
        logging.shutdown()
        os._exit(0)


def set_up_logs() -> None:
    """Log lines to standard error, unless the application has set up its own."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
