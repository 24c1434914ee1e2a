"""Detects and drains workers that fail tasks which other workers complete."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.core.workers import WorkerStatus, drain, offers_of, read_fleet, run_status
from rqueue.errors import WorkerNotFound
from rqueue.store.lanes import read_lanes
from rqueue.task.lane import serves

if TYPE_CHECKING:
    from rqueue.core.workers import Registration, WorkerRecord
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.attempt.blame import WorkerRule
    from rqueue.task.lane import Lane


# For this time a drained worker counts towards the share of the fleet that may be drained.
REMEMBERED_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Blamed:
    """A worker to drain. `failed` and `done` count its tasks of types that other workers complete.
    `elsewhere` counts the failed tasks that other workers completed later.
    """

    name: str
    failed: int
    done: int
    elsewhere: int

    @property
    def why(self) -> str:
        """The evidence as a sentence."""
        return (
            f"failed {self.failed} tasks and completed {self.done}, of types that rarely fail on"
            f" others; {self.elsewhere} of the failed tasks were completed by others"
        )


def to_blame(
    fleet: Sequence[WorkerRecord], lanes: Collection[Lane], rule: WorkerRule
) -> list[Blamed]:
    """Returns the workers to drain, the worst first. A worker is not drained if one of its lanes
    would be left without a sound worker. At most the rule's share of the fleet is drained. If all
    workers are suspect, none is drained, because the cause lies outside the workers.
    """
    if not rule.enabled:
        return []
    blames = blames_in(fleet)
    active = {known.name: known for known in fleet if registrations_of(known, WorkerStatus.ACTIVE)}
    suspect = [name for name in active if blames[name] >= rule.tasks]
    sound = [known for name, known in active.items() if name not in suspect]
    found = [
        one
        for one in (evidence_against(active[name], sound, blames[name], rule) for name in suspect)
        if one is not None and is_replaceable(active[one.name], sound, lanes)
    ]
    worst_first = sorted(found, key=lambda one: (-one.elsewhere, one.name))
    return worst_first[: drains_left(fleet, active.keys(), rule)]


def blames_in(fleet: Iterable[WorkerRecord]) -> Counter[str]:
    """Returns, for each worker, how many of the tasks that it failed were completed by others."""
    found: Counter[str] = Counter()
    for known in fleet:
        for registration in registrations_of(known, WorkerStatus.ACTIVE, WorkerStatus.DRAINING):
            found.update(registration.blames)
    return found


def evidence_against(
    known: WorkerRecord, sound: Sequence[WorkerRecord], elsewhere: int, rule: WorkerRule
) -> Blamed | None:
    """Returns the evidence against a suspect; None unless it fails many tasks of types that sound
    workers complete.
    """
    own, others = counts_of(known), Counter[tuple[str, str]]()
    for one in sound:
        others.update(counts_of(one))
    failed = done = 0
    for type in {type for type, _ in own}:
        good, bad = others[type, "done"], others[type, "failed"]
        # A type that other workers fail too is left to its breaker.
        if good and bad <= (good + bad) * rule.share / 2:
            failed += own[type, "failed"]
            done += own[type, "done"]
    if failed < rule.tasks or failed < (failed + done) * rule.share:
        return None
    return Blamed(known.name, failed, done, elsewhere)


def counts_of(known: WorkerRecord) -> Counter[tuple[str, str]]:
    """Returns the recent completions and failures of a worker name by type."""
    found: Counter[tuple[str, str]] = Counter()
    for registration in registrations_of(known, WorkerStatus.ACTIVE):
        for type, (done, failed) in registration.worked.items():
            found[type, "done"] += done
            found[type, "failed"] += failed
    return found


def is_replaceable(
    known: WorkerRecord, sound: Sequence[WorkerRecord], lanes: Iterable[Lane]
) -> bool:
    """Returns whether sound workers serve every lane that this worker serves."""
    own, others = offers_of([known]), offers_of(sound)
    return all(
        any(serves(offer, lane) for offer in others)
        for lane in lanes
        if any(serves(offer, lane) for offer in own)
    )


def drains_left(fleet: Iterable[WorkerRecord], active: Collection[str], rule: WorkerRule) -> int:
    """Returns how many more workers may be drained. Recently drained ones count as drained."""
    drained = {known.name for known in fleet if is_recent(known)}
    return max(0, int(len(drained | set(active)) * rule.fleet_share) - len(drained))


def is_recent(known: WorkerRecord) -> bool:
    """Returns whether a worker was drained recently."""
    return known.blamed_ms is not None and known.blamed_ms < REMEMBERED_MS


def registrations_of(known: WorkerRecord, *statuses: WorkerStatus) -> list[Registration]:
    """Returns the registrations of the processes of a worker name that have one of these
    statuses.
    """
    return [
        run.registration for run in known.runs if run.registration and run_status(run) in statuses
    ]


LOG = logging.getLogger("rqueue.scheduler")
LONGEST_SEC = 5.0


@dataclass(slots=True)
class Drained:
    """The number of workers that one tick has drained."""

    blamed: int = 0


class BadWorkerDrainer:
    """Compares the failure statistics of all workers and drains the bad ones. Any number of
    instances may run, because a worker is drained only once.
    """

    name = "drainer"

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.shard = shard
        self.rule = settings.bad_workers
        self.interval_sec = min(LONGEST_SEC, max(1.0, settings.lease_sec / 6))

    async def tick(self) -> Drained:
        """Compares the workers once and drains the bad ones."""
        drained = Drained()
        fleet = await read_fleet(self.shard)
        if not blames_in(fleet):
            return drained
        lanes = (await read_lanes(self.shard)).numbers
        for one in to_blame(fleet, lanes.keys(), self.rule):
            try:
                await drain(self.shard, one.name, why=one.why)
            except WorkerNotFound:
                # The worker has ended meanwhile.
                continue
            drained.blamed += 1
            LOG.warning("worker blamed", extra={"worker": one.name, "why": one.why})
        return drained
