"""How a command finds its queue, opens it, runs and ends.

rqueue.queue is imported when a command runs, because help and completion do not need it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import pwd
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from rqueue.cli.main import INTERRUPTED, TERMINATED
from rqueue.cli.output.tables import Printer
from rqueue.errors import ConfigError

VARIABLE = "RQUEUE_QUEUE"
# For commands that need a server but no queue: the settings common to all queues apply.
NO_QUEUE = "default"
# Characters that the name of a principal may not have, and its maximum length.
NOT_IN_PRINCIPAL = re.compile(r"[^A-Za-z0-9._-]+")
MAX_PRINCIPAL = 128
INTERVAL = click.FloatRange(0.1)


def chosen_queue(given: str | None) -> str | None:
    """The given queue, or the only one in rqueue.yaml."""
    if given:
        return given
    names = named_queues()
    return names[0] if len(names) == 1 else None


def needed_queue(given: str | None) -> str:
    """Like `chosen_queue`, but raises ConfigError if there is none."""
    found = chosen_queue(given)
    if found is None:
        from rqueue.settings.load import FILE  # noqa: PLC0415

        names = ", ".join(named_queues())
        several = f"{FILE} has several ({names}): " if names else ""
        raise ConfigError(
            "queue", f"{several}pass --queue NAME, set {VARIABLE}, or name one queue in {FILE}"
        )
    return found


def named_queues() -> list[str]:
    """The queues in rqueue.yaml, in its order. Raises ConfigError if the file is invalid."""
    from rqueue.settings.load import FILE, Settings, from_file  # noqa: PLC0415

    path = Path(FILE)
    if not path.is_file():
        return []
    import yaml  # noqa: PLC0415

    from_file(Settings, NO_QUEUE)
    content = yaml.safe_load(path.read_text("utf-8")) or {}
    return [str(name) for name in content.get("queues") or {}]


def complete_queue(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names in rqueue.yaml that start with the typed text. No call to the server."""
    try:
        names = named_queues()
    except ConfigError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


Work = Callable[..., Coroutine[Any, Any, None]]
Command = Callable[..., None]
Decorator = Callable[[Command], Command]
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def all_of(*options: Decorator) -> Decorator:
    """A decorator that adds several options, listed in the help in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


shared_options = all_of(
    click.option(
        "--queue",
        metavar="NAME",
        envvar=VARIABLE,
        shell_complete=complete_queue,
        help=f"The queue. [default: {VARIABLE}, or the only one in rqueue.yaml]",
    ),
    click.option("--url", metavar="URL", help="The server. [default: RQUEUE_REDIS_URL]"),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def on_queue(work: Work) -> Command:
    """Makes a command on one queue of `work(queue, out, ...)`."""

    def run(queue: str | None, **given: Any) -> None:
        perform(opened(work, needed_queue(queue), **given))

    return shared_options(functools.update_wrapper(run, work))


def serving_queue(work: Work) -> Command:
    """Makes a command on one queue that runs until it is stopped."""

    def run(queue: str | None, **given: Any) -> None:
        from rqueue.cli.processes.loop import new_loop, tune_gc  # noqa: PLC0415

        tune_gc()
        perform(opened(work, needed_queue(queue), **given), new_loop)

    return shared_options(functools.update_wrapper(run, work))


def on_server(work: Work) -> Command:
    """Makes a command on a server of `work(queue, out, name=...)`; name is None without a queue."""

    def run(queue: str | None, **given: Any) -> None:
        name = chosen_queue(queue)
        perform(opened(work, name or NO_QUEUE, name=name, **given))

    return shared_options(functools.update_wrapper(run, work))


def os_user() -> str:
    """The user of this process as a principal, such as `human:ada`; by uid if it has no name.

    Read from the password database, because anyone can set an environment variable.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    name = NOT_IN_PRINCIPAL.sub("-", name).strip("._-")[:MAX_PRINCIPAL]
    return f"human:{name or f'uid-{uid}'}"


async def opened(
    work: Work, queue_name: str, /, *, url: str | None, as_json: bool, **given: Any
) -> None:
    """Runs the work with an open queue and closes it."""
    from rqueue.queue import Queue  # noqa: PLC0415
    from rqueue.worker.manual import LEAVING  # noqa: PLC0415

    async with Queue(queue_name, url=url) as queue:
        queue._internals.operations.reviewer = queue.settings.principal or os_user()
        try:
            await work(queue, Printer(as_json), **given)
        finally:
            # A cancelled claim releases its tasks before the loop ends.
            await asyncio.gather(*LEAVING)


def perform(work: Coroutine[Any, Any, None], loop: NewLoop | None = None) -> None:
    """Runs a command. SIGINT and SIGTERM end it after it has released its tasks."""
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(stoppable(work))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None


async def stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work; SIGTERM cancels it, as asyncio does on SIGINT."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await work


def confirm(what: str, verb: str, done: str) -> None:
    """Asks for confirmation. Without a terminal, raises UsageError: --yes is required."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} would be {done}: add --yes, or --dry-run")
    click.confirm(f"{verb.capitalize()} {what}?", abort=True, err=True)
