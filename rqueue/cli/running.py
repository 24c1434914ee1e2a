"""`rqueue worker` and `rqueue scheduler`: the processes that do the work."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue import logs
from rqueue.cli.looping import run
from rqueue.cli.observing import observable, ports_of, set_up_logs
from rqueue.cli.seconds import SECONDS
from rqueue.cli.serving import Served, check_types, served
from rqueue.cli.session import serving_queue
from rqueue.errors import ConfigError
from rqueue.queue import Queue
from rqueue.services.duty import Duty, Limits
from rqueue.services.gathering import Watched
from rqueue.services.naming import worker_name
from rqueue.services.processes import Processes
from rqueue.services.reloading import Reloader, folders_of
from rqueue.services.resizing import on_steps
from rqueue.services.watching import Ports, Watch

if TYPE_CHECKING:
    from rqueue.cli.output import Printer

# While one develops, old code is not waited for.
RELOAD_GRACE_SEC = 2.0


@click.command()
@click.argument("app", metavar="MODULE:QUEUE")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME[:WEIGHT]", help="Serve these queues."
)
@click.option("--processes", type=click.IntRange(1), default=1, help="Worker processes.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Tasks at once, each.")
@click.option("--type", "types", multiple=True, help="Serve these types only.")
@click.option("--capability", "capabilities", multiple=True, help="What this worker can do.")
@click.option("--agent", "agents", multiple=True, help="Serve tasks for these agents too.")
@click.option("--model", "models", multiple=True, help="A model it has. [default: any]")
@click.option("--name", help="The worker's name. [default: host:pid:random]")
@click.option("--grace", type=SECONDS, default=30.0, help="Seconds to end in.")
@click.option("--max-tasks", type=click.IntRange(1), help="A fresh process after so many tasks.")
@click.option("--max-rss", type=click.IntRange(1), help="A fresh process above so many MB.")
@click.option("--no-scheduler", is_flag=True, help="Take no part in the scheduler's election.")
@click.option("--reload", is_flag=True, help="Start anew when the code has changed.")
@observable
def worker(app: str, processes: int, reload: bool, **options: Any) -> None:
    """Run the tasks of a queue.

    MODULE:QUEUE is where the queue stands that the handlers are registered with, such as
    shop.tasks:queue. With --queue its handlers serve the queues of these names instead: in strict
    order, or by weight where they have one. SIGTERM lets what runs end within --grace; a second one
    gives it back at once. SIGTTIN adds a slot to each process, SIGTTOU takes one away.
    """
    ports = ports_of(options)
    module, _ = place_of(app)
    slots = options["concurrency"]
    if reload:
        set_up_logs(options)
        grace = ["--grace", f"{min(options['grace'], RELOAD_GRACE_SEC):g}"]
        command = [*again("--grace", flags=["--reload"]), *grace]
        run(Reloader(command, folders_of(module), slots=slots).run())
    elif processes > 1:
        set_up_logs(options)
        command = again("--processes", "--metrics-port", "--health-port", "--name")
        made = Processes(command, processes, ports, slots=slots, name=options["name"])
        run(made.run())
        if made.refused:
            raise click.exceptions.Exit(made.refused)
    else:
        queue = load(app)
        # After the application's own code: what it has set up stays.
        set_up_logs(options)
        if not queue.registry.handlers:
            rule = f"queue {queue.name} has no handlers: use @queue.task"
            raise ConfigError("MODULE:QUEUE", rule)
        chosen = served(queue, module, options.pop("queues"), options.pop("concurrency"))
        check_types(chosen.queues, options["types"])
        run(serve(chosen.queues, duty_of(chosen, ports, options)))


def duty_of(chosen: Served, ports: Ports, options: dict[str, Any]) -> Duty:
    """A worker for each of the queues, on the seats that they share."""
    limits = Limits(options.pop("max_tasks"), options.pop("max_rss"))
    grace, no_scheduler = options.pop("grace"), options.pop("no_scheduler")
    name, types = options.pop("name") or worker_name(), options.pop("types") or None
    workers = [
        queue.worker(types=types, name=name, seats=chosen.seats, **options)
        for queue in chosen.queues
    ]
    schedulers = [] if no_scheduler else [queue.scheduler(name) for queue in chosen.queues]
    logs.FACTS.update(worker=name, queue=chosen.names)
    return Duty(workers, schedulers, grace_sec=grace, limits=limits, ports=ports)


async def serve(queues: Sequence[Queue], duty: Duty) -> None:
    """One worker process."""
    async with AsyncExitStack() as stack:
        for queue in queues:
            await stack.enter_async_context(queue)
        on_steps(duty.step)
        await duty.run()


@click.command()
@observable
@serving_queue
async def scheduler(queue: Queue, out: Printer, **options: Any) -> None:
    """Run the services of a queue: promoter, reaper, inbox, sweeps.

    Any number may run; one of them leads, the others stand by.
    """
    set_up_logs(options)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    made = queue.scheduler()
    logs.FACTS.update(worker=made.owner.name, queue=queue.name)
    async with Watch([Watched(queue.name, queue.shard, scheduler=made)], ports_of(options)):
        await made.run(stop)


def load(app: str) -> Queue:
    """The queue at MODULE:QUEUE; the working directory is looked in too. What the module's own code
    raises is not ours to tell: it comes as it is.
    """
    name, attribute = place_of(app)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError("MODULE:QUEUE", f"there is no module {error.name}") from error
    try:
        found = getattr(module, attribute)
    except AttributeError as error:
        raise ConfigError("MODULE:QUEUE", f"{name} has no {attribute}") from error
    if not isinstance(found, Queue):
        raise ConfigError("MODULE:QUEUE", f"{app} is a {type(found).__name__}, not a Queue")
    return found


def place_of(app: str) -> tuple[str, str]:
    """The module and the name in MODULE:QUEUE; ConfigError where no module can be called so."""
    module, _, attribute = app.partition(":")
    if not all(module.split(".")):
        raise ConfigError("MODULE:QUEUE", f"{app!r} names no module, such as shop.tasks:queue")
    return module, attribute or "queue"


def again(*options: str, flags: Sequence[str] = ()) -> list[str]:
    """This command once more, without some options and their values, and without some flags."""
    return [sys.executable, "-m", "rqueue", *without(sys.argv[1:], options, flags)]


def without(words: Sequence[str], options: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words of a command line without some options and their values, and some flags."""
    left: list[str] = []
    skip = False
    for word in words:
        if skip or word in flags or word.partition("=")[0] in options:
            skip = not skip and word in options
        else:
            left.append(word)
    return left
