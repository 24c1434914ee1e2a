"""Who works on a queue, as operators see it, and how they send one home."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rqueue.client import door
from rqueue.errors import WorkerNotFound
from rqueue.model.worker import WorkerStatus
from rqueue.policy.fleet import Known, run_status, status_of
from rqueue.store import fleet
from rqueue.store.budgets import budgets
from rqueue.store.consumers import read_consumers
from rqueue.store.urgency import server_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.model.worker import Registration
    from rqueue.policy.fleet import Run
    from rqueue.store.queue import InHand
    from rqueue.store.shard import Shard

ANY = "*"
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker by its name. `said` is what it offers, None for one that claims by hand or has
    left; `runs` is how many are at work under the name; `held` is what it has in hand. Without a
    budget of its own there is none that remains. `blamed_at` is when it was sent home because it
    failed what others completed.
    """

    name: str
    status: WorkerStatus
    last_heartbeat: datetime
    silent_ms: int
    said: Registration | None = None
    runs: int = 0
    budget_remaining_usd: float | None = None
    held: Sequence[InHand] = field(default_factory=list)
    blamed_at: datetime | None = None


async def workers(shard: Shard) -> list[WorkerInfo]:
    """Every worker by name: the registered, those that have claimed something, and those that only
    wait.
    """
    known = {one.name: one for one in await fleet.read_fleet(shard)}
    consumers = {one.name: one for one in await read_consumers(shard)}
    money = await budgets(shard)
    now = EPOCH + timedelta(milliseconds=await server_ms(shard))
    found = []
    for name in sorted(known.keys() | consumers.keys()):
        consumer, account = consumers.get(name), money.of_worker(name)
        idle_ms = consumer.idle_ms if consumer else None
        one = known.get(name) or Known(name, idle_ms or 0)
        silent_ms = one.silent_ms if idle_ms is None else min(one.silent_ms, idle_ms)
        found.append(
            WorkerInfo(
                name=name,
                status=status_of(one, shard.terms.lease_ms),
                last_heartbeat=now - timedelta(milliseconds=silent_ms),
                silent_ms=silent_ms,
                said=latest(one),
                runs=len(at_work(one)),
                budget_remaining_usd=account.remaining_usd if account else None,
                held=consumer.held if consumer else (),
                blamed_at=earlier(now, one.blamed_ms),
            )
        )
    return found


def earlier(now: datetime, by_ms: int | None) -> datetime | None:
    """When that was, if it was."""
    return None if by_ms is None else now - timedelta(milliseconds=by_ms)


def at_work(known: Known) -> list[Run]:
    """Those that run under a name now, those first that take work."""
    live = [run for run in known.runs if run_status(run) is not WorkerStatus.OFFLINE]
    return sorted(live, key=lambda run: run_status(run) is WorkerStatus.DRAINING)


def latest(known: Known) -> Registration | None:
    """What a worker says of itself: one that takes work, else the last that was heard of."""
    others = sorted(known.runs, key=lambda run: run.silent_ms)
    return next((run.said for run in (*at_work(known), *others) if run.said is not None), None)


async def drain_workers(shard: Shard, name: str) -> list[str]:
    """Sends home who works under a name, or under all that a `*` fits; the names. Raises
    WorkerNotFound where there is nobody.
    """
    door.label_of("worker", str(name).replace(ANY, "x"))
    if ANY not in name:
        await fleet.drain(shard, name)
        return [name]
    drained = []
    for one in await fleet.read_fleet(shard):
        if fnmatchcase(one.name, name) and at_work(one):
            try:
                await fleet.drain(shard, one.name)
            except WorkerNotFound:
                # It has left meanwhile, which is what was wanted.
                continue
            drained.append(one.name)
    if not drained:
        raise WorkerNotFound(name)
    return sorted(drained)
