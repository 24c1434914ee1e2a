"""Answers questions about a process from a thread of its own, so that it is heard while a handler
blocks the event loop; and tells its parent process the same, if it has one.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from rqueue.errors import RQueueError
from rqueue.metrics.figures import Figures, packed
from rqueue.services.gathering import Watched, gather, gather_queues
from rqueue.services.listener import Address, Listener, Page
from rqueue.services.probing import ASK_SEC, Health, examine, page

if TYPE_CHECKING:
    from rqueue.services.parent import Parent

LOG = logging.getLogger("rqueue.watch")
# Scrapes within this time get the same figures of the queue.
FRESH_SEC = 1.0
FEEL_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a process is to be asked for its metrics and its health; the same port will do."""

    metrics: Address | None = None
    health: Address | None = None

    def __bool__(self) -> bool:
        return self.metrics is not None or self.health is not None


class Source:
    """What a listener shows: figures, and health as a document."""

    async def figures(self) -> Figures:
        """All figures, those of the queues included."""
        raise NotImplementedError

    async def health(self) -> dict[str, Any]:
        """Whether it is `alive` and `ready`, and why."""
        raise NotImplementedError


def listeners(ports: Ports, source: Source) -> list[Listener]:
    """The listeners that are wanted: one, where both have the same address."""

    async def metrics() -> Page:
        return Page(shown.exposition((await source.figures()).cells), kind=shown.CONTENT_TYPE)

    async def alive() -> Page:
        return page(await source.health(), "alive")

    async def ready() -> Page:
        return page(await source.health(), "ready")

    routes: dict[Address, dict[str, Any]] = {}
    if ports.metrics is not None:
        # Only then: a worker without metrics does not pay for the library.
        shown = importlib.import_module("rqueue.metrics.exposition")
        routes.setdefault(ports.metrics, {})["/metrics"] = metrics
    if ports.health is not None:
        routes.setdefault(ports.health, {}).update({"/healthz": alive, "/readyz": ready})
    return [Listener(address, paths) for address, paths in routes.items()]


async def listen(ports: Ports, source: Source) -> list[Listener]:
    """Starts the listeners, or none of them."""
    started: list[Listener] = []
    try:
        for listener in listeners(ports, source):
            started.append(listener)
            address = await listener.start()
            LOG.info(
                "listening", extra={"address": str(address), "paths": " ".join(listener.routes)}
            )
    except BaseException:
        # A cancel too: what listens already would hold its port.
        await asyncio.gather(*(listener.aclose() for listener in started))
        raise
    return started


class Watch(Source):
    """Watches one process. `async with` it around the work; nothing runs where nobody asks."""

    def __init__(
        self, watched: Sequence[Watched], ports: Ports, parent: Parent | None = None
    ) -> None:
        self.watched = watched
        self.ports = ports
        self.parent = parent
        self.scripts = Figures()
        self.queues = Figures()
        self.queues_at = float("-inf")
        self.asking = asyncio.Lock()
        self.main: asyncio.AbstractEventLoop | None = None
        self.asked_at = 0.0
        self.lag_sec = 0.0
        self.waiting = False
        # Told to the parent at the end.
        self.limit = ""
        self.ready: asyncio.Future[None] | None = None
        self.ending = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self.run, name="rqueue-watch", daemon=True)

    async def __aenter__(self) -> Self:
        """Listens; ConfigError where that is not possible."""
        if self.ports or self.parent is not None:
            self.main = asyncio.get_running_loop()
            self.ready = self.main.create_future()
            if self.ports.metrics is not None:
                self.measure()
            self.thread.start()
            await self.ready
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Tells the last figures and listens no more."""
        if self.loop is not None:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.ending.set)
            await asyncio.to_thread(self.thread.join, 2 * ASK_SEC)

    def measure(self) -> None:
        """Begins to measure what costs a little."""
        for one in self.watched:
            one.shard.runner.observe = self.timed
            if one.worker is not None:
                one.worker.desk.ledger.watch_waits()

    def timed(self, script: str, seconds: float) -> None:
        """A script was called."""
        self.scripts.observe("rqueue_script_seconds", script, value=seconds)

    def run(self) -> None:
        """The thread."""
        with asyncio.Runner() as runner:
            runner.run(self.watch())

    async def watch(self) -> None:
        """Listens and speaks until it is to end."""
        self.loop = asyncio.get_running_loop()
        opened: list[Listener] = []
        beside: list[asyncio.Task[None]] = []
        try:
            opened = await listen(self.ports, self)
            if self.parent is not None:
                await self.parent.open()
        except Exception as error:
            # Whatever it is, who started us waits to hear it.
            self.tell(error)
            return
        self.tell(None)
        beside.append(asyncio.create_task(self.feel()))
        if self.parent is not None:
            beside.append(asyncio.create_task(self.parent.listen(self)))
        await self.ending.wait()
        for task in beside:
            task.cancel()
        if self.parent is not None:
            self.parent.part(self.counted(), self.limit)
            await self.parent.aclose()
        await asyncio.gather(*(listener.aclose() for listener in opened))
        for one in self.watched:
            await one.shard.runner.connection.aclose()

    def tell(self, error: Exception | None) -> None:
        """Lets who started us go on, or fail."""
        assert self.main is not None
        self.main.call_soon_threadsafe(self.told, error)

    def told(self, error: Exception | None) -> None:
        """`tell`, on the event loop that waits for it."""
        if self.ready is None or self.ready.done():
            return
        if error is None:
            self.ready.set_result(None)
        else:
            self.ready.set_exception(error)

    async def feel(self) -> None:
        """Asks the watched event loop again and again to turn."""
        while True:
            if not self.waiting and self.main is not None:
                self.asked_at, self.waiting = time.monotonic(), True
                with suppress(RuntimeError):
                    self.main.call_soon_threadsafe(self.turned)
            await asyncio.sleep(FEEL_SEC)

    def turned(self) -> None:
        """The watched event loop turns."""
        self.lag_sec, self.waiting = time.monotonic() - self.asked_at, False

    @property
    def lag(self) -> float:
        """How late the watched event loop turned last, or is by now."""
        return time.monotonic() - self.asked_at if self.waiting else self.lag_sec

    def counted(self) -> dict[str, Any]:
        """What was counted in this process, as it is sent."""
        figures = gather(self.watched)
        figures.add(self.scripts.cells)
        for one in self.watched:
            if one.worker is not None:
                figures.put("rqueue_event_loop_lag_seconds", one.worker.name, value=self.lag)
        return packed(figures.cells)

    async def figures(self) -> Figures:
        """What was counted here, and what is in the queues; without those where they are away."""
        figures = Figures()
        figures.add({name: dict(series) for name, series in self.counted().items()})
        figures.add((await self.depth()).cells)
        return figures

    async def depth(self) -> Figures:
        """What is in the queues, as it was read a moment ago or is now."""
        async with self.asking:
            if time.monotonic() - self.queues_at > FRESH_SEC:
                try:
                    async with asyncio.timeout(ASK_SEC):
                        self.queues = await gather_queues(self.watched)
                except (RQueueError, TimeoutError):
                    self.queues = Figures()
                self.queues_at = time.monotonic()
            return self.queues

    async def examined(self) -> Health:
        """How the process is."""
        return await examine(self.watched, self.lag)

    async def health(self) -> dict[str, Any]:
        """How the process is, as a document."""
        return (await self.examined()).document()
