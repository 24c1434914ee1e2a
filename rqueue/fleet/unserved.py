"""Reports ready tasks that no live worker can run."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.core.counts import note_unserved
from rqueue.core.workers import requirements_of, unserved_lanes
from rqueue.store.lanes import read_lanes

if TYPE_CHECKING:
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Lane

LOG = logging.getLogger("rqueue.scheduler")
LONGEST_SEC = 15.0


@dataclass(slots=True)
class Reported:
    """The number of lanes that one tick has reported for the first time."""

    lanes: int = 0


class UnservedReporter:
    """Compares the lanes that have ready tasks with what live workers offer. A tick takes time
    proportional to the number of lanes and workers. Any number of instances may run, because the
    move records since when a lane is unserved and whether that was reported.
    """

    name = "reporter"

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.shard = shard
        self.after_ms = round(settings.unserved_after_sec * 1000)
        self.interval_sec = min(LONGEST_SEC, max(1.0, settings.unserved_after_sec / 4))

    async def tick(self) -> Reported:
        """Compares once. Reports the lanes that have been unserved for `unserved_after_sec`."""
        found = await unserved_lanes(self.shard)
        numbers = (await read_lanes(self.shard)).numbers if found else {}
        rows = [(numbers[lane], detail(lane, ready)) for lane, ready in found.items()]
        number = await note_unserved(self.shard, rows, after_ms=self.after_ms)
        if number:
            LOG.warning("tasks that no live worker can run", extra={"lanes": len(rows)})
        return Reported(number)


def detail(lane: Lane, ready: int) -> str:
    """Returns a text with the number of ready tasks of a lane and their requirements."""
    return f"{ready} ready, need {requirements_of(lane)}"
