"""`rqueue up, worker, scheduler, notifier`: processes that serve a queue.

Their implementation is imported when a command is called.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import click

from rqueue import log
from rqueue.cli.options import SECONDS, observable, ports_of, set_up_logs
from rqueue.cli.session import serving_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from rqueue.cli.output.tables import Printer
    from rqueue.queue import Queue


@click.command()
@click.argument("app", metavar="[MODULE:QUEUE]", required=False)
@click.option("--demo", is_flag=True, help="Run a sample workload and show it.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Concurrent tasks.")
@click.option(
    "--grace", type=SECONDS, default=10.0, help="Seconds to wait for running tasks at the end."
)
@click.option("--no-archive", is_flag=True, help="Do not start PostgreSQL for ended tasks.")
@observable
def up(app: str | None, demo: bool, concurrency: int, grace: float, **options: Any) -> None:
    """Start the servers, the scheduler and a worker with one command.

    The server is that of RQUEUE_REDIS_URL or rqueue.yaml, else an embedded Valkey with its data in
    .rqueue/. Ended tasks are archived in the PostgreSQL of RQUEUE_POSTGRES_URL; with an embedded
    Valkey, in an embedded PostgreSQL. Ctrl-C stops everything in order. With --demo and without a
    terminal, it ends when the workload is done.
    """
    from rqueue.cli.processes import up_process  # noqa: PLC0415 - imported when called

    if demo == (app is not None):
        raise ConfigError("MODULE:QUEUE", "is required; or use --demo to see a sample queue")
    ports = ports_of(options)
    if demo and options["log_level"] is None:
        # Log lines would overwrite the live view, which shows everything but errors.
        logging.getLogger("rqueue").setLevel("ERROR")
    set_up_logs(options)
    embedded = up_process.choose_server()
    up_process.choose_archive(wanted=not options["no_archive"])
    up_process.run_up(app, ports, concurrency=concurrency, grace_sec=grace, embedded=embedded)


@click.command()
@observable
@serving_queue
async def notifier(queue: Queue, out: Printer, **options: Any) -> None:
    """Send the notices of a queue to its sinks.

    The elected scheduler also does this if it has the secrets. Any number may run.
    """
    from rqueue.cli.processes.serving import run_services  # noqa: PLC0415
    from rqueue.notices.notifier import notifiers  # noqa: PLC0415
    from rqueue.worker.stats import worker_name  # noqa: PLC0415

    set_up_logs(options)
    made = notifiers(
        queue._internals.shard, queue.settings, clock=SYSTEM, random=Random(), strict=True
    )
    if not made:
        raise ConfigError("sinks", "there are none: add some to rqueue.yaml")
    await run_services(queue, made, ports_of(options), name=worker_name())


# In development, tasks that run the old code get only this long to finish.
RELOAD_GRACE_SEC = 2.0


@click.command()
@click.argument("app", metavar="MODULE:QUEUE")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:WEIGHT]",
    help="Serve this queue. [repeatable]",
)
@click.option("--processes", type=click.IntRange(1), default=1, help="Number of worker processes.")
@click.option(
    "--concurrency", type=click.IntRange(1), default=10, help="Concurrent tasks in each process."
)
@click.option("--type", "types", multiple=True, help="Serve only this type. [repeatable]")
@click.option(
    "--capability", "capabilities", multiple=True, help="A capability of this worker. [repeatable]"
)
@click.option("--agent", "agents", multiple=True, help="Also tasks for this agent. [repeatable]")
@click.option(
    "--model", "models", multiple=True, help="A model of this worker. [repeatable; default: any]"
)
@click.option("--name", help="The worker's name. [default: host:pid:random]")
@click.option(
    "--grace", type=SECONDS, default=30.0, help="Seconds to wait for running tasks at the end."
)
@click.option("--max-tasks", type=click.IntRange(1), help="Replace a process after N tasks.")
@click.option("--max-rss", type=click.IntRange(1), help="Replace a process above N MB of memory.")
@click.option(
    "--no-scheduler", is_flag=True, help="Do not take part in the election of the scheduler."
)
@click.option("--reload", is_flag=True, help="Restart when the code has changed.")
@observable
def worker(app: str, processes: int, reload: bool, **options: Any) -> None:
    """Run the tasks of a queue.

    MODULE:QUEUE is the queue with the registered handlers, such as shop.tasks:queue. With --queue,
    its handlers serve the named queues instead, in strict order or by weight. After SIGTERM,
    running tasks may finish within --grace; a second SIGTERM releases them immediately. SIGTTIN
    adds a slot to each process, SIGTTOU removes one.
    """
    from rqueue.cli.processes import serving  # noqa: PLC0415
    from rqueue.cli.processes.loop import run  # noqa: PLC0415

    ports = ports_of(options)
    module, _ = serving.place_of(app)
    slots = options["concurrency"]
    if reload:
        set_up_logs(options)
        grace = ["--grace", f"{min(options['grace'], RELOAD_GRACE_SEC):g}"]
        command = [*own_command("--grace", flags=["--reload"]), *grace]
        from rqueue.process.reloader import Reloader, folders_of  # noqa: PLC0415

        run(Reloader(command, folders_of(module), slots=slots).run())
    elif processes > 1:
        set_up_logs(options)
        command = own_command("--processes", "--metrics-port", "--health-port", "--name")
        from rqueue.process.supervisor import Supervisor  # noqa: PLC0415

        made = Supervisor(command, processes, ports, slots=slots, name=options["name"])
        run(made.run())
        if made.refused:
            raise click.exceptions.Exit(made.refused)
    else:
        serving.serve_app(app, ports, options)


@click.command()
@observable
@serving_queue
async def scheduler(queue: Queue, out: Printer, **options: Any) -> None:
    """Run the services of a queue: promoter, reaper, inbox, sweeps.

    Any number may run. One is elected leader, the others stand by.
    """
    from rqueue.gauges import GAUGES  # noqa: PLC0415
    from rqueue.process.monitor import Monitor, ServedQueue  # noqa: PLC0415

    set_up_logs(options)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    made = queue.scheduler()
    log.FACTS.update(worker=made.owner.name, queue=queue.name)
    watched = [ServedQueue(queue.name, queue._internals.shard, scheduler=made)]
    async with Monitor(watched, ports_of(options), gauges=GAUGES):
        await made.run(stop)


def own_command(*options: str, flags: Sequence[str] = ()) -> list[str]:
    """The command line of this process without some options, their values, and some flags."""
    return [sys.executable, "-m", "rqueue", *without_options(sys.argv[1:], options, flags)]


def without_options(
    words: Sequence[str], options: Sequence[str], flags: Sequence[str]
) -> list[str]:
    """Removes some options with their values, and some flags, from a command line."""
    left: list[str] = []
    skip = False
    for word in words:
        if skip or word in flags or word.partition("=")[0] in options:
            skip = not skip and word in options
        else:
            left.append(word)
    return left
