"""The archive's half of a queue: what was counted, what is embedded, what need not be kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rqueue.client import door
from rqueue.client.desk import Desk
from rqueue.errors import ConfigError
from rqueue.store import outbox

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive
    from rqueue.archive.embeddings import Embeddings
    from rqueue.archive.pruning import Pruned
    from rqueue.client.rebuilding import Restored
    from rqueue.client.restoring import Restorer
    from rqueue.client.verifying import Verified
    from rqueue.clock import Clock
    from rqueue.model.metrics import Period, QueueMetrics
    from rqueue.model.retention import Retention
    from rqueue.runtime import Runtime

# What is shown of each period where nobody says since when.
SHOWN: dict[Period, timedelta] = {
    "minute": timedelta(hours=1),
    "hour": timedelta(days=2),
    "day": timedelta(days=31),
}
NO_ARCHIVE = "is none here: set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml"


class Upkeep:
    """What is done with the archive of a queue. Each call but `leave` raises ConfigError where
    there is none, and StoreUnavailable where its server is away.
    """

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self.runtime = runtime
        self.settings = runtime.settings
        self.queue = runtime.settings.name
        self.clock = clock

    @property
    def archive(self) -> Archive:
        """The archive of the queue."""
        if self.runtime.archive is None:
            raise ConfigError("archive", NO_ARCHIVE)
        return self.runtime.archive

    async def metrics(
        self,
        period: Period = "day",
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> list[QueueMetrics]:
        """What was counted in each minute, hour or day, the oldest first: by default of the last
        hour, two days or month. The last row is of a time that is not over.
        """
        # The archive's own package is an extra.
        from rqueue.archive.metrics import read_metrics  # noqa: PLC0415

        known = door.word_of("period", period, SHOWN)
        now = self.clock.now()
        begin = now - SHOWN[known] if since is None else door.instant_of("since", since)
        end = now + timedelta(days=1) if until is None else door.instant_of("until", until)
        return await read_metrics(self.archive, self.queue, known, since=begin, until=end)

    @property
    def embeddings(self) -> Embeddings:
        """What has completed and is to be embedded, for an embedding worker."""
        from rqueue.archive.embeddings import Embeddings  # noqa: PLC0415 - an extra

        return Embeddings(self.archive, self.queue)

    async def prune(self, retention: Retention | None = None, *, dry_run: bool = False) -> Pruned:
        """Deletes from the archive what has been kept for long enough, by the queue's policy or the
        one that is given; with `dry_run` only counts it.
        """
        from rqueue.archive.pruning import pruning_of  # noqa: PLC0415 - an extra

        now = self.clock.now()
        pruning = pruning_of(self.archive, self.settings, retention, now=now)
        return await (pruning.count() if dry_run else pruning.prune())

    @property
    def restorer(self) -> Restorer:
        """What puts ended work back."""
        from rqueue.client.restoring import Restorer  # noqa: PLC0415 - an extra

        runtime = self.runtime
        if runtime.past is None:
            raise ConfigError("archive", NO_ARCHIVE)
        desk = Desk(runtime.shard, runtime.reader, self.settings, runtime.past)
        return Restorer(self.archive, desk, self.clock, earlier=runtime.earlier)

    async def restore_task(self, task: str, *, dry_run: bool = False) -> Restored:
        """Puts an ended task back as a new one. Asked for again, it is the one that was made the
        first time, for as long as an idempotency key counts. With `dry_run` only says what would be
        done. Raises TaskNotFound, WrongState where it has not ended, NotArchived where its end is
        still in the outbox, and the SubmitErrors.
        """
        return await self.restorer.task(task, dry_run=dry_run)

    async def restore_dag(
        self, dag: str, *, incomplete: bool = False, dry_run: bool = False
    ) -> Restored:
        """Puts a DAG that is over back as a new one, or only those tasks that did not complete:
        they are given the outputs of the others. Each call makes another. Raises DagNotFound,
        InvalidTask where it is not over, NotArchived where a part of it is still in the outbox, and
        the other SubmitErrors.
        """
        return await self.restorer.dag(dag, incomplete=incomplete, dry_run=dry_run)

    async def leave(self) -> None:
        """Says that the queue has no archive any more; raises OutboxNotEmpty while something waits
        for it. An archiver that runs, or a worker or scheduler that starts and whose settings say
        postgres, says the contrary again.
        """
        await outbox.leave(self.runtime.shard)

    async def verify(self, *, repair: bool = False) -> Verified:
        """Compares what Redis still has of ended tasks with the archive, and counts what it has
        not; with `repair`, what is in neither the outbox nor the archive goes into the outbox
        again, and a counter of the outbox that lies is put right.
        """
        from rqueue.client.verifying import Verifier  # noqa: PLC0415 - an extra

        verifier = Verifier(self.archive, self.runtime.shard, self.settings, self.clock)
        found = await verifier.verify()
        if repair and (found.lost or found.counter != found.counted):
            await verifier.repair(found)
        return found
