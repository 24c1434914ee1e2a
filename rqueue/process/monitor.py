"""Serves the metrics and the health of a process from a separate thread, which answers while a
handler blocks the event loop; sends the same to the supervisor, if there is one.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from rqueue.core.timers import clock
from rqueue.errors import RQueueError
from rqueue.metrics.figures import Figures, packed
from rqueue.process.http_listener import Address, Listener, Page

if TYPE_CHECKING:
    from rqueue.process.scheduler import Scheduler
    from rqueue.process.service import ServiceCounters
    from rqueue.process.supervisor_pipe import SupervisorPipe
    from rqueue.store.shard import Shard
    from rqueue.worker.heartbeat import Heartbeat
    from rqueue.worker.worker import Worker


LOG = logging.getLogger("rqueue.watch")
# Scrapes within this time share one read of the queues.
FRESH_SEC = 1.0
LAG_INTERVAL_SEC = 1.0
# An event loop that has been blocked for this long will not recover by itself.
STUCK_SEC = 30.0
ANSWER_SEC = 2.0
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """A queue that this process serves; `services` are those that no scheduler runs."""

    queue: str
    shard: Shard
    worker: Worker | None = None
    scheduler: Scheduler | None = None
    services: Mapping[str, ServiceCounters] = field(default_factory=dict)


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
        self.moves = Figures()
        self.queues = Figures()
        self.queues_at = float("-inf")
        self.reading = asyncio.Lock()
        self.main: asyncio.AbstractEventLoop | None = None
        self.probed_at = 0.0
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
            await asyncio.to_thread(self.thread.join, 2 * ANSWER_SEC)

    def measure(self) -> None:
        """Starts the measurements that cost time."""
        for one in self.served_queues:
            one.shard.runner.observe = self.timed
            if one.worker is not None:
                one.worker.executor.stats.watch_waits()

    def timed(self, move: str, seconds: float) -> None:
        """Counts a call of a move."""
        self.moves.observe("rqueue_script_seconds", move, value=seconds)

    def run(self) -> None:
        """The thread."""
        with asyncio.Runner() as runner:
            runner.run(self.monitor())

    async def monitor(self) -> None:
        """Serves until the process ends."""
        self.loop = asyncio.get_running_loop()
        opened: list[Listener] = []
        background: list[asyncio.Task[None]] = []
        try:
            opened = await listen(self.ports, self)
            if self.supervisor is not None:
                await self.supervisor.open()
        except Exception as error:
            # Any exception is raised from `__aenter__`.
            self.report_start(error)
            return
        self.report_start(None)
        background.append(asyncio.create_task(self.measure_lag()))
        if self.supervisor is not None:
            background.append(asyncio.create_task(self.supervisor.listen(self)))
        await self.ending.wait()
        for task in background:
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
                self.probed_at, self.waiting = time.monotonic(), True
                with suppress(RuntimeError):
                    self.main.call_soon_threadsafe(self.loop_ran)
            await asyncio.sleep(LAG_INTERVAL_SEC)

    def loop_ran(self) -> None:
        """Called by the worker's event loop."""
        self.lag_sec, self.waiting = time.monotonic() - self.probed_at, False

    @property
    def lag(self) -> float:
        """How late the worker's event loop ran the last callback, or is by now."""
        return time.monotonic() - self.probed_at if self.waiting else self.lag_sec

    def counted(self) -> dict[str, Any]:
        """The metrics of this process, as they are sent."""
        figures = self.gauges.process(self.served_queues)
        figures.add(self.moves.cells)
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
        async with self.reading:
            if time.monotonic() - self.queues_at > FRESH_SEC:
                try:
                    async with asyncio.timeout(ANSWER_SEC):
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
class Health:
    """The health of a process. One that is not alive should be restarted; one that is not ready
    should get no work for now.
    """

    loop_lag_sec: float
    started: bool
    heartbeats: bool
    server: bool
    draining: bool
    slots: bool = True

    @property
    def alive(self) -> bool:
        """The event loop runs, and the leases are renewed if there can be any."""
        return self.loop_lag_sec < STUCK_SEC and self.heartbeats

    @property
    def ready(self) -> bool:
        """It can take work."""
        able = self.started and self.server and self.slots
        return self.alive and able and not self.draining

    def document(self) -> dict[str, Any]:
        """The fields as a JSON document."""
        return {"alive": self.alive, "ready": self.ready, **asdict(self)}


async def check_health(served_queues: Sequence[ServedQueue], lag_sec: float) -> Health:
    """The health of a process, seen from another of its threads."""
    workers = [one.worker for one in served_queues if one.worker is not None]
    beats = [worker.beat for worker in workers]
    return Health(
        loop_lag_sec=round(lag_sec, 3),
        started=all(map(begun, beats)),
        heartbeats=all(beat.thread.is_alive() or not wanted(beat) for beat in beats),
        server=all(await asyncio.gather(*(answers(one) for one in served_queues))),
        draining=any(worker.draining for worker in workers),
        slots=not any(worker.slots.shared_slots.all_stuck for worker in workers),
    )


def begun(beat: Heartbeat) -> bool:
    """Whether the worker has opened its resources and started."""
    return beat.thread.ident is not None


def wanted(beat: Heartbeat) -> bool:
    """Whether the heartbeat must run: after the worker has started and until it ends."""
    return begun(beat) and not beat.stopping.is_set()


async def answers(one: ServedQueue) -> bool:
    """Whether the Redis of a queue answers."""
    connection = one.shard.runner.connection
    try:
        async with asyncio.timeout(ANSWER_SEC):
            await connection.call(clock, what="TIME", timeout_sec=ANSWER_SEC)
    except (RQueueError, TimeoutError):
        return False
    return True


def page(document: Mapping[str, Any], wanted: str) -> Page:
    """The response of a probe: 200 if `wanted` is true in the document, else 503."""
    status = HTTPStatus.OK if document[wanted] else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps(document).encode() + b"\n", status, JSON)
