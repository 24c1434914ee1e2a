"""A worker process for one or several queues: its queues, workers, schedulers and services."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from rqueue import log
from rqueue.cli.options import set_up_logs
from rqueue.cli.processes.loop import run
from rqueue.clock import ended
from rqueue.errors import ConfigError
from rqueue.gauges import GAUGES
from rqueue.process.monitor import Monitor, Ports, ServedQueue
from rqueue.process.service import Service, ServiceCounters, run_service
from rqueue.process.worker_process import Limits, WorkerProcess, on_steps
from rqueue.queue import Queue
from rqueue.runtime import assemble, open_runtime
from rqueue.settings.load import Settings
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.stats import worker_name

# The largest weight of a queue; the smallest is 1.
MAX_WEIGHT = 1000


@dataclass(frozen=True, slots=True)
class Served:
    """The queues of a worker process and their shared slots."""

    queues: Sequence[Queue]
    shared_slots: SharedSlots

    @property
    def names(self) -> str:
        """The names of the queues, separated by commas."""
        return ",".join(queue.name for queue in self.queues)


def served(app: Queue, module: str, wanted: Sequence[str], concurrency: int) -> Served:
    """The queues of `--queue NAME[:WEIGHT]`; without the option, the application's own queue.

    Without weights the queues are served in strict order.
    """
    if not wanted:
        return Served([app], SharedSlots(concurrency))
    shares = [share_of(word) for word in wanted]
    names = [name for name, _ in shares]
    if len(set(names)) != len(names):
        raise ConfigError("--queue", "names a queue twice")
    weights = [weight for _, weight in shares]
    if any(weights) and not all(weights):
        raise ConfigError(
            "--queue", "has a weight for some queues only; give all of them a weight, or none"
        )
    return Served(
        [queue_of(app, module, name) for name in names], SharedSlots(concurrency, weights)
    )


def check_types(queues: Sequence[Queue], types: Sequence[str]) -> None:
    """Raises ConfigError for a type without a handler in one of the queues: its tasks would be
    claimed and would always fail.
    """
    for queue in queues:
        known = queue._internals.registry.handlers
        unknown = [type for type in types if type not in known]
        if unknown:
            names = ", ".join(sorted(known))
            rule = f"{unknown[0]!r} has no handler in queue {queue.name}, whose types are {names}"
            raise ConfigError("--type", rule)


def share_of(word: str) -> tuple[str, int]:
    """The name and the weight in NAME[:WEIGHT]; without a weight, 0."""
    name, colon, weight = word.partition(":")
    if not colon:
        return name, 0
    if not weight.isdecimal() or not 1 <= int(weight) <= MAX_WEIGHT:
        raise ConfigError("--queue", f"{word!r}: a weight is a number from 1 to {MAX_WEIGHT}")
    return name, int(weight)


def queue_of(app: Queue, module: str, name: str) -> Queue:
    """The queue with this name: one that the module defines with its own handlers, else a new one
    with the application's handlers.
    """
    for found in vars(sys.modules[module]).values():
        if isinstance(found, Queue) and found.name == name and found._internals.registry.handlers:
            return found
    settings = Settings.load(name, **app._internals.given)
    same = settings.server() == app.settings.server()
    runtime = (
        assemble(settings, app._internals.runtime.connection) if same else open_runtime(settings)
    )
    queue = Queue(name, runtime=runtime)
    queue._internals.registry = app._internals.registry
    queue._internals.hooks = app._internals.hooks
    return queue


async def run_services(
    queue: Queue, services: Sequence[Service], ports: Ports, *, name: str
) -> None:
    """Runs services of a queue, each at its own interval, until SIGTERM or SIGINT. `name` is the
    name of the process in its log.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log.FACTS.update(worker=name, queue=queue.name)
    figures = {one.name: ServiceCounters() for one in services}

    def server_ms() -> float:
        return queue._internals.clock.now_ms()

    async with Monitor(
        [ServedQueue(queue.name, queue._internals.shard, services=figures)], ports, gauges=GAUGES
    ):
        keeping = [
            asyncio.create_task(
                run_service(one, figures[one.name], server_ms=server_ms, random=Random()),
                name=one.name,
            )
            for one in services
        ]
        try:
            await stop.wait()
        finally:
            await ended(keeping)


def serve_app(app: str, ports: Ports, options: dict[str, Any]) -> None:
    """Runs one worker process for the queue at MODULE:QUEUE, or for those of `--queue`."""
    module, _ = place_of(app)
    queue = load(app)
    # After the application's module is imported: its own logging configuration is kept.
    set_up_logs(options)
    if not queue._internals.registry.handlers:
        rule = f"queue {queue.name} has no handlers: use @queue.task"
        raise ConfigError("MODULE:QUEUE", rule)
    chosen = served(queue, module, options.pop("queues"), options.pop("concurrency"))
    check_types(chosen.queues, options["types"])
    run(serve(chosen.queues, worker_process_of(chosen, ports, options)))


def worker_process_of(chosen: Served, ports: Ports, options: dict[str, Any]) -> WorkerProcess:
    """A worker process with one worker for each queue, on shared slots."""
    limits = Limits(options.pop("max_tasks"), options.pop("max_rss"))
    grace, no_scheduler = options.pop("grace"), options.pop("no_scheduler")
    name, types = options.pop("name") or worker_name(), options.pop("types") or None
    workers = [
        queue.worker(types=types, name=name, shared_slots=chosen.shared_slots, **options)
        for queue in chosen.queues
    ]
    schedulers = [] if no_scheduler else [queue.scheduler(name) for queue in chosen.queues]
    log.FACTS.update(worker=name, queue=chosen.names)
    return WorkerProcess(
        workers, schedulers, grace_sec=grace, gauges=GAUGES, limits=limits, ports=ports
    )


async def serve(queues: Sequence[Queue], worker_process: WorkerProcess) -> None:
    """Opens the queues and runs the worker process."""
    async with AsyncExitStack() as stack:
        for queue in queues:
            await stack.enter_async_context(queue)
        on_steps(worker_process.step)
        await worker_process.run()


def load(app: str) -> Queue:
    """Imports the queue at MODULE:QUEUE; the working directory is on the path. Errors of the
    module's own code are raised unchanged.
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
    """The module and the name in MODULE:QUEUE. Raises ConfigError for an invalid module name."""
    module, _, attribute = app.partition(":")
    if not all(module.split(".")):
        raise ConfigError(
            "MODULE:QUEUE", f"{app!r} names no module; use a form such as shop.tasks:queue"
        )
    return module, attribute or "queue"
