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


# How long a drained worker counts towards the share of the fleet that may be drained.
REMEMBERED_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Blamed:
    """A worker to drain. `failed` and `done` count its tasks of types that other workers complete;
    `elsewhere` counts the failed ones that others completed later.
    """

    name: str
    failed: int
    done: int
    elsewhere: int

    @property
    def why(self) -> str:
        """The evidence as a sentence."""
        return (
            f"failed {self.failed} tasks and completed {self.done} of types that others do not"
            f" fail; {self.elsewhere} of them were completed elsewhere"
        )


def to_blame(
    fleet: Sequence[WorkerRecord], lanes: Collection[Lane], rule: WorkerRule
) -> list[Blamed]:
    """The workers to drain, the worst first. A worker is kept if one of its lanes is served by no
    sound worker, and at most the rule's share of the fleet is drained. If all are suspect, none is
    drained, because the cause is elsewhere.
    """
    if not rule.enabled:
        return []
    blames = blames_in(fleet)
    active = {known.name: known for known in fleet if said_by(known, WorkerStatus.ACTIVE)}
    suspect = [name for name in active if blames[name] >= rule.tasks]
    sound = [known for name, known in active.items() if name not in suspect]
    found = [
        one
        for one in (verdict(active[name], sound, blames[name], rule) for name in suspect)
        if one is not None and replaced(active[one.name], sound, lanes)
    ]
    worst_first = sorted(found, key=lambda one: (-one.elsewhere, one.name))
    return worst_first[: left_to_send(fleet, active.keys(), rule)]


def blames_in(fleet: Iterable[WorkerRecord]) -> Counter[str]:
    """For each worker, how many tasks that it failed the others report as completed."""
    found: Counter[str] = Counter()
    for known in fleet:
        for registration in said_by(known, WorkerStatus.ACTIVE, WorkerStatus.DRAINING):
            found.update(registration.blames)
    return found


def verdict(
    known: WorkerRecord, sound: Sequence[WorkerRecord], elsewhere: int, rule: WorkerRule
) -> Blamed | None:
    """The evidence against a suspect; None unless it fails many tasks of types that sound workers
    complete.
    """
    own, others = worked(known), Counter[tuple[str, str]]()
    for one in sound:
        others.update(worked(one))
    failed = done = 0
    for type in {type for type, _ in own}:
        good, bad = others[type, "done"], others[type, "failed"]
        # A type that fails on other workers too is the concern of its breaker.
        if good and bad <= (good + bad) * rule.share / 2:
            failed += own[type, "failed"]
            done += own[type, "done"]
    if failed < rule.tasks or failed < (failed + done) * rule.share:
        return None
    return Blamed(known.name, failed, done, elsewhere)


def worked(known: WorkerRecord) -> Counter[tuple[str, str]]:
    """The recent completions and failures of a worker name, by type."""
    found: Counter[tuple[str, str]] = Counter()
    for registration in said_by(known, WorkerStatus.ACTIVE):
        for type, (done, failed) in registration.worked.items():
            found[type, "done"] += done
            found[type, "failed"] += failed
    return found


def replaced(known: WorkerRecord, sound: Sequence[WorkerRecord], lanes: Iterable[Lane]) -> bool:
    """Whether sound workers serve every lane that this one does."""
    own, others = offers_of([known]), offers_of(sound)
    return all(
        any(serves(offer, lane) for offer in others)
        for lane in lanes
        if any(serves(offer, lane) for offer in own)
    )


def left_to_send(fleet: Iterable[WorkerRecord], active: Collection[str], rule: WorkerRule) -> int:
    """How many more workers may be drained; recently drained ones count."""
    sent = {known.name for known in fleet if is_recent(known)}
    return max(0, int(len(sent | set(active)) * rule.fleet_share) - len(sent))


def is_recent(known: WorkerRecord) -> bool:
    """Whether a worker was drained recently."""
    return known.blamed_ms is not None and known.blamed_ms < REMEMBERED_MS


def said_by(known: WorkerRecord, *statuses: WorkerStatus) -> list[Registration]:
    """The registrations of a worker name's processes with one of these statuses."""
    return [
        run.registration for run in known.runs if run.registration and run_status(run) in statuses
    ]


LOG = logging.getLogger("rqueue.scheduler")
LONGEST_SEC = 5.0


@dataclass(slots=True)
class Seen:
    """How many workers one tick has drained."""

    blamed: int = 0


class BadWorkerDrainer:
    """Compares the failure statistics of all workers and drains the bad ones. Any number of
    instances may run: a worker is drained once.
    """

    name = "referee"

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.shard = shard
        self.rule = settings.bad_workers
        self.interval_sec = min(LONGEST_SEC, max(1.0, settings.lease_sec / 6))

    async def tick(self) -> Seen:
        """Compares once and drains the bad workers."""
        seen = Seen()
        fleet = await read_fleet(self.shard)
        if not blames_in(fleet):
            return seen
        lanes = (await read_lanes(self.shard)).numbers
        for one in to_blame(fleet, lanes.keys(), self.rule):
            try:
                await drain(self.shard, one.name, why=one.why)
            except WorkerNotFound:
                # It has ended in the meantime.
                continue
            seen.blamed += 1
            LOG.warning("worker blamed", extra={"worker": one.name, "why": one.why})
        return seen
