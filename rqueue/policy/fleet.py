"""How a worker is, by what is known of it; and which tasks no live worker can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.worker import Registration, WorkerStatus
from rqueue.policy.capability import Offer, serves

if TYPE_CHECKING:
    from rqueue.model.lane import Lane


@dataclass(frozen=True, slots=True)
class Run:
    """One worker under a name: how long it has been silent and may be, whether it was told to
    drain, and what it said of itself, if that can be read.
    """

    id: str
    silent_ms: int
    lease_ms: int
    told: bool = False
    said: Registration | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known under a worker's name. One that claims by hand has no runs. `blamed_ms` is
    how long ago it was sent home for its failures, if it was.
    """

    name: str
    silent_ms: int
    runs: Sequence[Run] = ()
    left: bool = False
    blamed_ms: int | None = None


def run_status(run: Run) -> WorkerStatus:
    """How one run is: gone when it has been silent for longer than a lease of its own."""
    if run.silent_ms > run.lease_ms:
        return WorkerStatus.OFFLINE
    draining = run.told or (run.said is not None and run.said.draining)
    return WorkerStatus.DRAINING if draining else WorkerStatus.ACTIVE


def status_of(known: Known, lease_ms: int) -> WorkerStatus:
    """How a worker is: as the best of its runs; without any, as it was heard of within a lease."""
    if not known.runs:
        silent = known.left or known.silent_ms > lease_ms
        return WorkerStatus.OFFLINE if silent else WorkerStatus.ACTIVE
    found = {run_status(run) for run in known.runs}
    return next(status for status in WorkerStatus if status in found)


def has_one_slot(known: Known) -> bool:
    """Whether every worker under a name runs one task at a time, as far as is known of them."""
    said = [run.said for run in known.runs]
    return bool(said) and all(one is not None and one.max_concurrent_tasks == 1 for one in said)


def offers_of(fleet: Iterable[Known]) -> list[Offer]:
    """What those offer who take work now."""
    return [
        Offer.of(run.said.types, run.said.capabilities, run.said.agents)
        for known in fleet
        for run in known.runs
        if run.said is not None and run_status(run) is WorkerStatus.ACTIVE
    ]


def serving(fleet: Iterable[Known], lane: Lane) -> list[str]:
    """The names of those who take work now and could do that of a lane."""
    return [known.name for known in fleet if any(serves(o, lane) for o in offers_of([known]))]


def unserved(ready: Mapping[Lane, int], offers: Sequence[Offer]) -> dict[Lane, int]:
    """The lanes with tasks that none of the offers covers, and how many those are."""
    distinct = set(offers)
    return {
        lane: number
        for lane, number in ready.items()
        if number and not any(serves(offer, lane) for offer in distinct)
    }


def asks_for(lane: Lane) -> str:
    """What a worker must offer to serve a lane, in words."""
    words = [f"type {lane.type}"]
    words += [f"agent {lane.agent}"] if lane.agent else []
    words += [f"capabilities {', '.join(lane.capabilities)}"] if lane.capabilities else []
    return ", ".join(words)
