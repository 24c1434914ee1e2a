"""Which workers are to be sent home: they fail what others complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.worker import WorkerStatus
from rqueue.policy.capability import serves
from rqueue.policy.fleet import offers_of, run_status

if TYPE_CHECKING:
    from rqueue.model.blame import WorkerRule
    from rqueue.model.lane import Lane
    from rqueue.model.worker import Registration
    from rqueue.policy.fleet import Known

# For how long one that was sent home counts towards the share of the fleet.
REMEMBERED_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Blamed:
    """A worker that is to be sent home: how many tasks it failed and completed, of the types that
    others do not fail, and how many of those others then completed.
    """

    name: str
    failed: int
    done: int
    elsewhere: int

    @property
    def why(self) -> str:
        """The evidence in words."""
        return (
            f"failed {self.failed} tasks and completed {self.done} of types that others do not"
            f" fail; {self.elsewhere} of them were completed elsewhere"
        )


def to_blame(fleet: Sequence[Known], lanes: Collection[Lane], rule: WorkerRule) -> list[Blamed]:
    """The workers to send home, the worst first. Never one whose work no sound worker takes, and
    never more of the fleet than the rule allows; where all are suspect, it is not the workers.
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


def blames_in(fleet: Iterable[Known]) -> Counter[str]:
    """How many tasks that a worker failed were completed by others, by what those say."""
    found: Counter[str] = Counter()
    for known in fleet:
        for said in said_by(known, WorkerStatus.ACTIVE, WorkerStatus.DRAINING):
            found.update(said.blames)
    return found


def verdict(
    known: Known, sound: Sequence[Known], elsewhere: int, rule: WorkerRule
) -> Blamed | None:
    """A suspect that fails much of what sound workers do well, if it does."""
    own, others = worked(known), Counter[tuple[str, str]]()
    for one in sound:
        others.update(worked(one))
    failed = done = 0
    for type in {type for type, _ in own}:
        good, bad = others[type, "done"], others[type, "failed"]
        # Where the others fail, too, it is the type's: its breaker is there for that.
        if good and bad <= (good + bad) * rule.share / 2:
            failed += own[type, "failed"]
            done += own[type, "done"]
    if failed < rule.tasks or failed < (failed + done) * rule.share:
        return None
    return Blamed(known.name, failed, done, elsewhere)


def worked(known: Known) -> Counter[tuple[str, str]]:
    """What those under a name have completed and failed lately, by type."""
    found: Counter[tuple[str, str]] = Counter()
    for said in said_by(known, WorkerStatus.ACTIVE):
        for type, (done, failed) in said.worked.items():
            found[type, "done"] += done
            found[type, "failed"] += failed
    return found


def replaced(known: Known, sound: Sequence[Known], lanes: Iterable[Lane]) -> bool:
    """Whether sound workers serve every lane that this one does."""
    own, others = offers_of([known]), offers_of(sound)
    return all(
        any(serves(offer, lane) for offer in others)
        for lane in lanes
        if any(serves(offer, lane) for offer in own)
    )


def left_to_send(fleet: Iterable[Known], active: Collection[str], rule: WorkerRule) -> int:
    """How many more may be sent home, with those that were not long ago."""
    sent = {known.name for known in fleet if is_recent(known)}
    return max(0, int(len(sent | set(active)) * rule.fleet_share) - len(sent))


def is_recent(known: Known) -> bool:
    """Whether a worker was sent home not long ago."""
    return known.blamed_ms is not None and known.blamed_ms < REMEMBERED_MS


def said_by(known: Known, *statuses: WorkerStatus) -> list[Registration]:
    """What those under a name say of themselves who are so."""
    return [run.said for run in known.runs if run.said and run_status(run) in statuses]
