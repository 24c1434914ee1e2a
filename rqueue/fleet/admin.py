"""The workers of a queue: their status, what they offer, and their leases."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rqueue.budgets.accounts import budgets
from rqueue.core import workers as registered
from rqueue.core.counts import LeaseEntry, read_leases
from rqueue.core.workers import WorkerRecord, WorkerStatus, run_status, status_of
from rqueue.errors import WorkerNotFound
from rqueue.maintenance.rescorer import server_ms
from rqueue.producer import arguments
from rqueue.store.errors import ServerRefused
from rqueue.store.replies import moment, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.core.workers import Registration, Run
    from rqueue.store.shard import Shard
    from rqueue.store.url import Client


GROUP = "workers"
PAGE = 500
# Server errors for a stream or a group that does not exist yet.
NOT_YET = ("no such key", "NOGROUP")


@dataclass(slots=True)
class Consumer:
    """A consumer of the stream. `idle_ms` is the time since it last claimed or renewed."""

    name: str
    idle_ms: int
    held: list[LeaseEntry] = field(default_factory=list)


async def read_consumers(shard: Shard) -> list[Consumer]:
    """Returns all consumers with their leases, sorted by name. Reads the leases in pages."""
    key = shard.keys.ready()
    rows = await shard.runner.connection.call(
        lambda c: consumers_of(c, key), what="XINFO CONSUMERS"
    )
    found = {
        text(row["name"]): Consumer(text(row["name"]), int(row.get("inactive", row["idle"])))
        for row in rows
    }
    after = ""
    while page := await read_leases(shard, idle_ms=0, after=after, limit=PAGE):
        after = page[-1].entry
        for lease in page:
            # A consumer that joined after the first read is known only by its leases.
            known = found.setdefault(lease.consumer, Consumer(lease.consumer, lease.idle_ms))
            known.held.append(lease)
    return [found[name] for name in sorted(found)]


async def consumers_of(client: Client, key: str) -> list[dict[str, Any]]:
    """Returns the consumers of the group; empty if nothing has been claimed yet."""
    try:
        rows: list[dict[str, Any]] = await client.xinfo_consumers(key, GROUP)
    except ServerRefused as error:
        if any(word in str(error) for word in NOT_YET):
            return []
        raise
    return rows


ANY = "*"


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The state of one worker name. `registration` is what the worker offers, None for a worker
    that claims by hand or has left. `runs` is the number of live processes with the name; `held`
    are its leases. `budget_remaining_usd` is None without a budget of its own. `blamed_at` is when
    the worker was drained because it failed tasks that others completed.
    """

    name: str
    status: WorkerStatus
    last_heartbeat: datetime
    silent_ms: int
    registration: Registration | None = None
    runs: int = 0
    budget_remaining_usd: float | None = None
    held: Sequence[LeaseEntry] = field(default_factory=list)
    blamed_at: datetime | None = None


async def workers(shard: Shard) -> list[WorkerInfo]:
    """Returns all workers, sorted by name: registered ones, and other consumers of the stream."""
    known = {one.name: one for one in await registered.read_fleet(shard)}
    consumers = {one.name: one for one in await read_consumers(shard)}
    accounts = await budgets(shard)
    now = moment(await server_ms(shard))
    found = []
    for name in sorted(known.keys() | consumers.keys()):
        consumer, account = consumers.get(name), accounts.of_worker(name)
        idle_ms = consumer.idle_ms if consumer else None
        one = known.get(name) or WorkerRecord(name, idle_ms or 0)
        silent_ms = one.silent_ms if idle_ms is None else min(one.silent_ms, idle_ms)
        found.append(
            WorkerInfo(
                name=name,
                status=status_of(one, shard.terms.lease_ms),
                last_heartbeat=now - timedelta(milliseconds=silent_ms),
                silent_ms=silent_ms,
                registration=latest(one),
                runs=len(live_runs(one)),
                budget_remaining_usd=account.remaining_usd if account else None,
                held=consumer.held if consumer else (),
                blamed_at=earlier(now, one.blamed_ms),
            )
        )
    return found


def earlier(now: datetime, by_ms: int | None) -> datetime | None:
    """Returns the time `by_ms` before `now`; None if `by_ms` is None."""
    return None if by_ms is None else now - timedelta(milliseconds=by_ms)


def live_runs(known: WorkerRecord) -> list[Run]:
    """Returns the live processes of a worker name. Those that are not draining come first."""
    live = [run for run in known.runs if run_status(run) is not WorkerStatus.OFFLINE]
    return sorted(live, key=lambda run: run_status(run) is WorkerStatus.DRAINING)


def latest(known: WorkerRecord) -> Registration | None:
    """Returns the registration of a live process with the name, else the most recent one."""
    others = sorted(known.runs, key=lambda run: run.silent_ms)
    return next(
        (run.registration for run in (*live_runs(known), *others) if run.registration is not None),
        None,
    )


async def drain_workers(shard: Shard, name: str) -> list[str]:
    """Drains the workers whose names match; `*` is a wildcard. Returns the names. Raises
    WorkerNotFound if no live worker matches.
    """
    arguments.label_of("worker", str(name).replace(ANY, "x"))
    if ANY not in name:
        await registered.drain(shard, name)
        return [name]
    drained = []
    for one in await registered.read_fleet(shard):
        if fnmatchcase(one.name, name) and live_runs(one):
            try:
                await registered.drain(shard, one.name)
            except WorkerNotFound:
                # The worker has ended meanwhile, as intended.
                continue
            drained.append(one.name)
    if not drained:
        raise WorkerNotFound(name)
    return sorted(drained)


class Fleet:
    """`queue.fleet`."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def workers(self) -> list[WorkerInfo]:
        """Returns the workers of the queue, sorted by name, with status, registration and
        leases.
        """
        return await workers(self._shard)

    async def drain(self, name: str) -> list[str]:
        """Drains a worker: it claims no more tasks and ends when its running tasks have finished.
        This applies to all processes with the name; `*` is a wildcard. Returns the names. A
        repeated call changes nothing. Raises WorkerNotFound if no live worker matches.
        """
        return await drain_workers(self._shard, name)
