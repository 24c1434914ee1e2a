"""Writes down minute by minute what the queue has done: task_queue_metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rqueue.archive.metrics import Sample, record
from rqueue.archive.migrating import prepare
from rqueue.model.worker import WorkerStatus
from rqueue.policy.fleet import run_status, status_of
from rqueue.store.fleet import read_fleet
from rqueue.store.queue import tally
from rqueue.store.reaping import read_seen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqueue.archive.connection import Archive
    from rqueue.policy.fleet import Known
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard


@dataclass(slots=True)
class Recorded:
    """What one tick did: how many minutes were counted anew."""

    minutes: int = 0


class Recorder:
    """Counts what ended by the archive's rows, and what came by the queue's own counter. What the
    archive learns late is counted where it belongs. Any number may run.
    """

    name = "recorder"
    interval_sec = 30.0

    def __init__(self, shard: Shard, archive: Archive, settings: Settings) -> None:
        self.shard = shard
        self.archive = archive
        self.settings = settings
        self.prepared = False

    async def tick(self) -> Recorded:
        """Brings the metrics up to date."""
        now = await self.now()
        if not self.prepared:
            await prepare(self.archive, now)
            self.prepared = True
        floor = self.settings.retention.recounted_from(now)
        name = self.settings.name
        return Recorded(await record(self.archive, name, self.look, floor=floor))

    async def look(self) -> Sample:
        """The queue as it is now."""
        counters = (await tally(self.shard)).counters
        fleet = await read_fleet(self.shard)
        delay = longest_silence(fleet, self.shard.terms.lease_ms)
        return Sample(await self.now(), counters.get("submitted", 0), delay)

    async def now(self) -> datetime:
        """The server's time, by which tasks end."""
        now_ms, _ = await read_seen(self.shard)
        return datetime.fromtimestamp(now_ms / 1000, UTC)


def longest_silence(fleet: Iterable[Known], lease_ms: int) -> float | None:
    """For how many seconds the live worker has been silent that was so for longest."""
    silent: list[int] = []
    for known in fleet:
        live = [run.silent_ms for run in known.runs if run_status(run) is not WorkerStatus.OFFLINE]
        if not known.runs and status_of(known, lease_ms) is not WorkerStatus.OFFLINE:
            live = [known.silent_ms]
        silent += live
    return max(silent) / 1000 if silent else None
