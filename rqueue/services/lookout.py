"""Says when there is work that no live worker can do."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.policy.fleet import asks_for
from rqueue.store.fleet import unserved_lanes
from rqueue.store.lanes import read_lanes
from rqueue.store.queue import note_unserved

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard

LOG = logging.getLogger("rqueue.scheduler")
LONGEST_SEC = 15.0


@dataclass(slots=True)
class Seen:
    """Of how many lanes one tick told for the first time."""

    told: int = 0


class Lookout:
    """Compares what is ready with what live workers offer, in time that grows with lanes and
    workers alone. Any number may run: the script remembers since when a lane is unserved, and what
    was told of it.
    """

    name = "lookout"

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.shard = shard
        self.after_ms = round(settings.unserved_after_sec * 1000)
        self.interval_sec = min(LONGEST_SEC, max(1.0, settings.unserved_after_sec / 4))

    async def tick(self) -> Seen:
        """Looks once, and tells of what has lasted for long."""
        found = await unserved_lanes(self.shard)
        numbers = (await read_lanes(self.shard)).numbers if found else {}
        rows = [(numbers[lane], detail(lane, ready)) for lane, ready in found.items()]
        told = await note_unserved(self.shard, rows, after_ms=self.after_ms)
        if told:
            LOG.warning("tasks that no live worker can do", extra={"lanes": len(rows)})
        return Seen(told)


def detail(lane: Lane, ready: int) -> str:
    """What is asked for and not there."""
    return f"{ready} ready, need {asks_for(lane)}"
