"""Sends home the workers that fail what others complete."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.errors import WorkerNotFound
from rqueue.policy.referee import blames_in, to_blame
from rqueue.store.fleet import drain, read_fleet
from rqueue.store.lanes import read_lanes

if TYPE_CHECKING:
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard

LOG = logging.getLogger("rqueue.scheduler")
LONGEST_SEC = 5.0


@dataclass(slots=True)
class Seen:
    """How many workers one tick has sent home."""

    blamed: int = 0


class Referee:
    """Compares what workers say of their own work and of each other's, and drains who is at fault.
    Any number may run: a worker is drained once.
    """

    name = "referee"

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.shard = shard
        self.rule = settings.bad_workers
        self.interval_sec = min(LONGEST_SEC, max(1.0, settings.lease_sec / 6))

    async def tick(self) -> Seen:
        """Looks once, and sends home who is to go."""
        seen = Seen()
        fleet = await read_fleet(self.shard)
        if not blames_in(fleet):
            return seen
        lanes = (await read_lanes(self.shard)).numbers
        for one in to_blame(fleet, lanes.keys(), self.rule):
            try:
                await drain(self.shard, one.name, why=one.why)
            except WorkerNotFound:
                # It has left meanwhile.
                continue
            seen.blamed += 1
            LOG.warning("worker blamed", extra={"worker": one.name, "why": one.why})
        return seen
