"""Serves the metrics and the health of a process from a separate thread, which answers while a
handler blocks the event loop; sends the same to the supervisor, if there is one.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rqueue.errors import RQueueError
from rqueue.metrics.figures import Figures, packed
from rqueue.process.http_probe import ASK_SEC, Address, Health, Listener, Page, check_health, page

if TYPE_CHECKING:
    from rqueue.process.pipe import SupervisorPipe
    from rqueue.process.scheduler import Scheduler
    from rqueue.process.service import Figures as Done
    from rqueue.store.shard import Shard
    from rqueue.worker.worker import Worker


LOG = logging.getLogger("rqueue.watch")
# Scrapes within this time share one read of the queues.
FRESH_SEC = 1.0
LAG_INTERVAL_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Ports:
    """The addresses for metrics and health; they may be the same."""

    metrics: Address | None = None
    health: Address | None = None

    def __bool__(self) -> bool:
        return self.metrics is not None or self.health is not None


class Source:
    """What the listeners serve."""

    async def figures(self) -> Figures:
        """All metrics, including those of the queues."""
        raise NotImplementedError

    async def health(self) -> dict[str, Any]:
        """A document with `alive`, `ready` and the reasons."""
        raise NotImplementedError


def listeners(ports: Ports, source: Source) -> list[Listener]:
    """The listeners: one if both addresses are the same."""

    async def metrics() -> Page:
        return Page(shown.exposition((await source.figures()).cells), kind=shown.CONTENT_TYPE)

    async def alive() -> Page:
        return page(await source.health(), "alive")

    async def ready() -> Page:
        return page(await source.health(), "ready")

    routes: dict[Address, dict[str, Any]] = {}
    if ports.metrics is not None:
        # Imported here, since a worker without metrics does not need the library.
        shown = importlib.import_module("rqueue.metrics.exposition")
        routes.setdefault(ports.metrics, {})["/metrics"] = metrics
    if ports.health is not None:
        routes.setdefault(ports.health, {}).update({"/healthz": alive, "/readyz": ready})
    return [Listener(address, paths) for address, paths in routes.items()]


async def listen(ports: Ports, source: Source) -> list[Listener]:
    """Starts all listeners, or none."""
    started: list[Listener] = []
    try:
        for listener in listeners(ports, source):
            started.append(listener)
            address = await listener.start()
            LOG.info(
                "listening", extra={"address": str(address), "paths": " ".join(listener.routes)}
            )
    except BaseException:
        # On a cancel too: a started listener would keep its port.
        await asyncio.gather(*(listener.aclose() for listener in started))
        raise
    return started


@dataclass(frozen=True, slots=True)
class Gauges:
    """Reads metrics: those of this process, from any thread, and those of its queues."""

    process: Callable[[Sequence[ServedQueue]], Figures]
    queues: Callable[[Sequence[ServedQueue]], Awaitable[Figures]]


class Monitor(Source):
    """Monitors one process while the `async with` block runs. It starts no thread if there are
    neither ports nor a supervisor.
    """

    def __init__(
        self,
        served_queues: Sequence[ServedQueue],
        ports: Ports,
        *,
        gauges: Gauges,
        supervisor: SupervisorPipe | None = None,
    ) -> None:
        self.gauges = gauges
        self.served_queues = served_queues
        self.ports = ports
        self.supervisor = supervisor
        self.scripts = Figures()
        self.queues = Figures()
        self.queues_at = float("-inf")
        self.asking = asyncio.Lock()
        self.main: asyncio.AbstractEventLoop | None = None
        self.asked_at = 0.0
        self.lag_sec = 0.0
        self.waiting = False
        # Sent to the supervisor at the end.
        self.limit = ""
        self.ready: asyncio.Future[None] | None = None
        self.ending = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self.run, name="rqueue-watch", daemon=True)

    async def __aenter__(self) -> Self:
        """Starts to listen; raises ConfigError if that is not possible."""
        if self.ports or self.supervisor is not None:
            self.main = asyncio.get_running_loop()
            self.ready = self.main.create_future()
            if self.ports.metrics is not None:
                self.measure()
            self.thread.start()
            await self.ready
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Sends the last metrics and stops listening."""
        if self.loop is not None:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.ending.set)
            await asyncio.to_thread(self.thread.join, 2 * ASK_SEC)

    def measure(self) -> None:
        """Starts the measurements that cost time."""
        for one in self.served_queues:
            one.shard.runner.observe = self.timed
            if one.worker is not None:
                one.worker.executor.stats.watch_waits()

    def timed(self, script: str, seconds: float) -> None:
        """Counts a script call."""
        self.scripts.observe("rqueue_script_seconds", script, value=seconds)

    def run(self) -> None:
        """The thread."""
        with asyncio.Runner() as runner:
            runner.run(self.monitor())

    async def monitor(self) -> None:
        """Serves until the process ends."""
        self.loop = asyncio.get_running_loop()
        opened: list[Listener] = []
        beside: list[asyncio.Task[None]] = []
        try:
            opened = await listen(self.ports, self)
            if self.supervisor is not None:
                await self.supervisor.open()
        except Exception as error:
            # Any exception is raised from `__aenter__`.
            self.report_start(error)
            return
        self.report_start(None)
        beside.append(asyncio.create_task(self.measure_lag()))
        if self.supervisor is not None:
            beside.append(asyncio.create_task(self.supervisor.listen(self)))
        await self.ending.wait()
        for task in beside:
            task.cancel()
        if self.supervisor is not None:
            self.supervisor.send_final(self.counted(), self.limit)
            await self.supervisor.aclose()
        await asyncio.gather(*(listener.aclose() for listener in opened))
        for one in self.served_queues:
            await one.shard.runner.connection.aclose()

    def report_start(self, error: Exception | None) -> None:
        """Lets `__aenter__` continue, or raise the error."""
        assert self.main is not None
        self.main.call_soon_threadsafe(self.resolve_ready, error)

    def resolve_ready(self, error: Exception | None) -> None:
        """`report_start` on the event loop that waits for it."""
        if self.ready is None or self.ready.done():
            return
        if error is None:
            self.ready.set_result(None)
        else:
            self.ready.set_exception(error)

    async def measure_lag(self) -> None:
        """Measures repeatedly how late the worker's event loop runs a callback."""
        while True:
            if not self.waiting and self.main is not None:
                self.asked_at, self.waiting = time.monotonic(), True
                with suppress(RuntimeError):
                    self.main.call_soon_threadsafe(self.loop_answered)
            await asyncio.sleep(LAG_INTERVAL_SEC)

    def loop_answered(self) -> None:
        """Called by the worker's event loop."""
        self.lag_sec, self.waiting = time.monotonic() - self.asked_at, False

    @property
    def lag(self) -> float:
        """How late the worker's event loop ran the last callback, or is by now."""
        return time.monotonic() - self.asked_at if self.waiting else self.lag_sec

    def counted(self) -> dict[str, Any]:
        """The metrics of this process, as they are sent."""
        figures = self.gauges.process(self.served_queues)
        figures.add(self.scripts.cells)
        for one in self.served_queues:
            if one.worker is not None:
                figures.put("rqueue_event_loop_lag_seconds", one.worker.name, value=self.lag)
        return packed(figures.cells)

    async def figures(self) -> Figures:
        """The metrics of this process and of the queues; without the latter if Redis is
        unavailable.
        """
        figures = Figures()
        figures.add({name: dict(series) for name, series in self.counted().items()})
        figures.add((await self.queue_figures()).cells)
        return figures

    async def queue_figures(self) -> Figures:
        """The metrics of the queues, read at most once per `FRESH_SEC`."""
        async with self.asking:
            if time.monotonic() - self.queues_at > FRESH_SEC:
                try:
                    async with asyncio.timeout(ASK_SEC):
                        self.queues = await self.gauges.queues(self.served_queues)
                except (RQueueError, TimeoutError):
                    self.queues = Figures()
                self.queues_at = time.monotonic()
            return self.queues

    async def current_health(self) -> Health:
        """The health of the process."""
        return await check_health(self.served_queues, self.lag)

    async def health(self) -> dict[str, Any]:
        """The health of the process as a document."""
        return (await self.current_health()).document()


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """A queue that this process serves; `services` are those that no scheduler runs."""

    queue: str
    shard: Shard
    worker: Worker | None = None
    scheduler: Scheduler | None = None
    services: Mapping[str, Done] = field(default_factory=dict)
