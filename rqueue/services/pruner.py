"""Lets go of what the archive need not keep any longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.archive.migrating import prepare
from rqueue.archive.pruning import Pruned, pruning_of

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive
    from rqueue.clock import Clock
    from rqueue.settings import Settings


class Pruner:
    """Deletes by the queue's policy. Any number may run: each takes the rows that it can lock."""

    name = "pruner"
    interval_sec = 3600.0

    def __init__(self, archive: Archive, settings: Settings, clock: Clock) -> None:
        self.archive = archive
        self.settings = settings
        self.clock = clock
        self.prepared = False

    async def tick(self) -> Pruned:
        """Deletes what has been kept for long enough."""
        now = self.clock.now()
        if not self.prepared:
            await prepare(self.archive, now)
            self.prepared = True
        return await pruning_of(self.archive, self.settings, now=now).prune()
