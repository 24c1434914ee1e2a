"""Whether a process is alive and ready, as its surroundings ask: facts, and what follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from rqueue.errors import RQueueError
from rqueue.services.listener import Page
from rqueue.store.reaping import clock

if TYPE_CHECKING:
    from rqueue.services.gathering import Watched
    from rqueue.services.heartbeat import Heartbeat

# A loop that has not turned for so long does not come back by itself.
STUCK_SEC = 30.0
ASK_SEC = 2.0
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of a process. A restart helps one that is not alive; one that is not ready
    should be left alone for now.
    """

    loop_lag_sec: float
    started: bool
    heartbeats: bool
    server: bool
    draining: bool
    slots: bool = True

    @property
    def alive(self) -> bool:
        """The event loop turns, and the leases are renewed where there can be any."""
        return self.loop_lag_sec < STUCK_SEC and self.heartbeats

    @property
    def ready(self) -> bool:
        """It can take work."""
        able = self.started and self.server and self.slots
        return self.alive and able and not self.draining

    def document(self) -> dict[str, Any]:
        """The facts, for programs."""
        return {"alive": self.alive, "ready": self.ready, **asdict(self)}


async def examine(watched: Sequence[Watched], lag_sec: float) -> Health:
    """Looks at a process from another of its threads, and asks its servers."""
    workers = [one.worker for one in watched if one.worker is not None]
    beats = [worker.beat for worker in workers]
    return Health(
        loop_lag_sec=round(lag_sec, 3),
        started=all(map(begun, beats)),
        heartbeats=all(beat.thread.is_alive() or not wanted(beat) for beat in beats),
        server=all(await asyncio.gather(*(answers(one) for one in watched))),
        draining=any(worker.draining for worker in workers),
        slots=not any(worker.slots.seats.lost for worker in workers),
    )


def begun(beat: Heartbeat) -> bool:
    """Whether its worker has opened all it needs and begun to work."""
    return beat.thread.ident is not None


def wanted(beat: Heartbeat) -> bool:
    """Whether it must renew leases: not before its worker has begun, nor when that is done."""
    return begun(beat) and not beat.stopping.is_set()


async def answers(one: Watched) -> bool:
    """Whether the server of a queue answers now."""
    connection = one.shard.runner.connection
    try:
        async with asyncio.timeout(ASK_SEC):
            await connection.call(clock, what="TIME", timeout_sec=ASK_SEC)
    except (RQueueError, TimeoutError):
        return False
    return True


def page(document: Mapping[str, Any], wanted: str) -> Page:
    """The answer of a probe: 200 where what is wanted holds, else 503."""
    status = HTTPStatus.OK if document[wanted] else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps(document).encode() + b"\n", status, JSON)
