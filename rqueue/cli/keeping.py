"""A process that keeps some services going, and is seen from outside while it does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from rqueue import logs
from rqueue.services.gathering import Watched
from rqueue.services.service import Figures, Service, keep
from rqueue.services.stopping import ended
from rqueue.services.watching import Ports, Watch

if TYPE_CHECKING:
    from rqueue.queue import Queue


async def keep_all(queue: Queue, services: Sequence[Service], ports: Ports, *, name: str) -> None:
    """Ticks services of a queue, each in its own time, until SIGTERM or SIGINT. `name` is what the
    process is called in its log.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logs.FACTS.update(worker=name, queue=queue.name)
    figures = {one.name: Figures() for one in services}

    def server_ms() -> float:
        return queue.clock.now_ms()

    async with Watch([Watched(queue.name, queue.shard, services=figures)], ports):
        keeping = [
            asyncio.create_task(
                keep(one, figures[one.name], server_ms=server_ms, random=Random()), name=one.name
            )
            for one in services
        ]
        try:
            await stop.wait()
        finally:
            await ended(keeping)
