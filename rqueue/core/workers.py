"""Workers as they are registered: what they offer, how many tasks they take, and their status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter

from rqueue.core.counts import tally
from rqueue.errors import ScriptFault, WorkerNotFound
from rqueue.store.replies import ok, text, words
from rqueue.task.lane import Offer, serves

if TYPE_CHECKING:
    from rqueue.core.counts import Tally
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Lane


class WorkerStatus(StrEnum):
    """Whether a worker claims tasks, claims no new tasks, or is gone."""

    ACTIVE = "active"
    DRAINING = "draining"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker reports about itself. `types` is None where it serves every type; `worked` is
    how many tasks of each type it has recently completed and failed; `blames` names the workers
    whose failed tasks it completed, and how many.
    """

    types: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models_available: tuple[str, ...] = ()
    max_concurrent_tasks: int = 1
    poll_interval_sec: float = 0.0
    claim_ttl_sec: float = 0.0
    draining: bool = False
    worked: dict[str, tuple[int, int]] = field(default_factory=dict)
    blames: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """The registration as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The registration in a text; None where it cannot be read. Fields of newer
        releases are ignored.
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Run:
    """One process under a worker's name: how long it has been silent and may be, whether
    a drain was requested, and its registration, if that can be read.
    """

    id: str
    silent_ms: int
    lease_ms: int
    drain_requested: bool = False
    registration: Registration | None = None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """All that is stored under a worker's name. A worker that claims by hand has no runs.
    `blamed_ms` is how long ago it was drained for its failures, if it was.
    """

    name: str
    silent_ms: int
    runs: Sequence[Run] = ()
    left: bool = False
    blamed_ms: int | None = None


def run_status(run: Run) -> WorkerStatus:
    """The status of a run: offline when it has been silent for longer than its lease."""
    if run.silent_ms > run.lease_ms:
        return WorkerStatus.OFFLINE
    draining = run.drain_requested or (run.registration is not None and run.registration.draining)
    return WorkerStatus.DRAINING if draining else WorkerStatus.ACTIVE


def status_of(known: WorkerRecord, lease_ms: int) -> WorkerStatus:
    """The status of a worker: the best of its runs; without any, by its last heartbeat."""
    if not known.runs:
        silent = known.left or known.silent_ms > lease_ms
        return WorkerStatus.OFFLINE if silent else WorkerStatus.ACTIVE
    found = {run_status(run) for run in known.runs}
    return next(status for status in WorkerStatus if status in found)


def has_one_slot(known: WorkerRecord) -> bool:
    """Whether every registered run under a name takes one task at a time."""
    registration = [run.registration for run in known.runs]
    return bool(registration) and all(
        one is not None and one.max_concurrent_tasks == 1 for one in registration
    )


def offers_of(fleet: Iterable[WorkerRecord]) -> list[Offer]:
    """The offers of the active runs."""
    return [
        Offer.of(run.registration.types, run.registration.capabilities, run.registration.agents)
        for known in fleet
        for run in known.runs
        if run.registration is not None and run_status(run) is WorkerStatus.ACTIVE
    ]


def serving(fleet: Iterable[WorkerRecord], lane: Lane) -> list[str]:
    """The names of the active workers that could run a lane's tasks."""
    return [known.name for known in fleet if any(serves(o, lane) for o in offers_of([known]))]


def unserved(ready: Mapping[Lane, int], offers: Sequence[Offer]) -> dict[Lane, int]:
    """The lanes with tasks that none of the offers covers, and how many tasks those are."""
    distinct = set(offers)
    return {
        lane: number
        for lane, number in ready.items()
        if number and not any(serves(offer, lane) for offer in distinct)
    }


def requirements_of(lane: Lane) -> str:
    """What a worker must offer to serve a lane, in words."""
    words = [f"type {lane.type}"]
    words += [f"agent {lane.agent}"] if lane.agent else []
    words += [f"capabilities {', '.join(lane.capabilities)}"] if lane.capabilities else []
    return ", ".join(words)


# Only this many are read, by last heartbeat.
LIMIT = 1000


async def register(shard: Shard, worker: str, run: str, registration: Registration) -> bool:
    """Registers what a worker offers; whether it must drain."""
    args: dict[str, Argument] = {
        "worker": worker,
        "run": run,
        "facts": registration.text(),
        "lease_ms": shard.terms.lease_ms,
    }
    reply = await shard.run("worker/register", args)
    match [text(word) for word in reply]:
        case ["OK"]:
            return False
        case ["DRAINING"]:
            return True
        case _:
            raise ScriptFault("worker/register", reply)


async def leave(shard: Shard, worker: str, run: str) -> None:
    """Records that a worker has ended."""
    args: dict[str, Argument] = {"worker": worker, "run": run}
    ok("worker/leave", worker, await shard.run("worker/leave", args))


async def drain(shard: Shard, worker: str, *, why: str = "") -> int:
    """Requests a drain of all runs under a name; returns how many there are. `why` is the reason
    where the worker is drained for its failures. Raises WorkerNotFound.
    """
    args: dict[str, Argument] = {
        "worker": worker,
        "cap": shard.terms.events,
        "why": why,
        **shard.request_args(),
    }
    reply = await shard.run("worker/drain", args)
    if text(reply[0]) == "GONE":
        raise WorkerNotFound(worker)
    return int(ok("worker/drain", worker, reply)[0])


async def read_fleet(shard: Shard, *, limit: int = LIMIT) -> list[WorkerRecord]:
    """The registered workers, by last heartbeat."""
    now, *rows = ok("worker/list", "", await shard.run("worker/list", {"limit": limit}))
    return [record_in(row, int(now)) for row in rows]


def record_in(row: list[Any], now_ms: int) -> WorkerRecord:
    """A worker as it is stored."""
    name, seen, flat = row
    kept = {words(field): words(value) for field, value in zip(flat[::2], flat[1::2], strict=True)}
    runs = [
        run_in(field.removeprefix("run:"), value, kept, now_ms)
        for field, value in sorted(kept.items())
        if field.startswith("run:")
    ]
    silent_ms = max(0, now_ms - int(float(seen)))
    blamed = kept.get("blamed", "")
    blamed_ms = max(0, now_ms - int(blamed)) if blamed.isdecimal() else None
    return WorkerRecord(words(name), silent_ms, runs, left="left" in kept, blamed_ms=blamed_ms)


def run_in(id: str, value: str, kept: dict[str, str], now_ms: int) -> Run:
    """A run as it is stored: `<ms> <until ms> <JSON>`. One that cannot be read is offline."""
    seen, _, rest = value.partition(" ")
    until, _, registration = rest.partition(" ")
    drain_requested = f"drain:{id}" in kept
    if not (seen.isdecimal() and until.isdecimal()):
        return Run(id, now_ms, 0, drain_requested)
    silent_ms = max(0, now_ms - int(seen))
    return Run(
        id, silent_ms, int(until) - int(seen), drain_requested, Registration.parse(registration)
    )


async def unserved_lanes(shard: Shard) -> dict[Lane, int]:
    """The READY tasks that no live worker can run, by lane; the cost grows with lanes
    and workers only.
    """
    ready = ready_by_lane(await tally(shard))
    if not any(ready.values()):
        return {}
    return unserved(ready, offers_of(await read_fleet(shard)))


def ready_by_lane(counted: Tally) -> dict[Lane, int]:
    """The READY tasks of each lane."""
    return {one.lane: sum(one.ready.values()) for one in counted.lanes}
