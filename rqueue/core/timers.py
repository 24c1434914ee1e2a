"""Moves that time causes, and the reaper's check of the server: after a restart, a pause, or a step
of the clock, idle times are not valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.core.counts import answer_all
from rqueue.store.replies import ok, text
from rqueue.store.shard import (
    CANCEL_LIMIT,
    CHUNK,
    LIMIT,
    TRIES,
    UNBLOCK_LIMIT,
    UNPAID_LIMIT,
    WAKE_LIMIT,
    ending,
)

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.store.url import Client


# A check that is so many intervals late may mean that the server stood still.
LATE = 3


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the reaper recorded at its last check."""

    at_ms: int
    run_id: str
    hold_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long an unrenewed lease is kept, how often the reaper checks, and the time
    between its last two checks.
    """

    lease_ms: int
    interval_ms: int
    last_gap_ms: int = 0

    @property
    def longest_gap_ms(self) -> float:
        """The longest time between two checks that gives no reason to doubt the server.

        A reaper whose checks are late again and again is slow itself; but a gap longer than a lease
        always counts.
        """
        slow_ms = min(self.last_gap_ms * LATE, self.lease_ms)
        return max(self.lease_ms / 3, self.interval_ms * LATE, slow_ms)


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """Result of a check of the server: until when nothing is reclaimed, and whether the clock went
    backwards, so that idle times no longer grow.
    """

    hold_until_ms: int
    stepped_back: bool = False

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may be reclaimed now."""
        return now_ms < self.hold_until_ms


def check_server(seen: LastCheck | None, now_ms: int, run_id: str, pace: Pace) -> ServerCheck:
    """Idle times count downtime and clock steps as silence: after either, every worker gets a full
    lease to renew.

    It is a single lease: late checks of a slow reaper do not prolong it.
    """
    if seen is None:
        return ServerCheck(0)
    gap_ms = now_ms - seen.at_ms
    if gap_ms < 0:
        return ServerCheck(now_ms + pace.lease_ms, stepped_back=True)
    if run_id != seen.run_id or gap_ms > pace.longest_gap_ms:
        return ServerCheck(now_ms + pace.lease_ms)
    return ServerCheck(seen.hold_until_ms)


async def read_last_check(shard: Shard) -> tuple[int, LastCheck | None]:
    """The server's time now, and what the last check recorded."""
    connection, key = shard.runner.connection, shard.keys.reaper()
    found: Any = await connection.call(lambda c: c.hgetall(key), what="reaper")
    # Read after it: a check that another reaper recorded meanwhile would look like a step back of
    # the clock.
    seconds, micros = await connection.call(clock, what="TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    if not found:
        return now_ms, None
    seen = LastCheck(int(found[b"at_ms"]), text(found[b"run_id"]), int(found[b"hold_until_ms"]))
    return now_ms, seen


async def clock(client: Client) -> Any:
    """The server's clock; in a cluster that of the first node."""
    answer = await client.time()
    return next(iter(answer.values())) if isinstance(answer, dict) else answer


async def write_last_check(shard: Shard, seen: LastCheck) -> None:
    """Records a check."""
    args: dict[str, Argument] = {
        "at_ms": seen.at_ms,
        "run_id": seen.run_id,
        "hold_ms": seen.hold_until_ms,
    }
    ok("scheduler/observe", "", await shard.run("scheduler/observe", args))


async def restamp(shard: Shard) -> None:
    """Resets the idle time of every lease."""
    last = ""
    while True:
        args: dict[str, Argument] = {"from": f"({last}" if last else "-", "limit": CHUNK}
        last = text(ok("scheduler/restamp", "", await shard.run("scheduler/restamp", args))[0])
        if not last:
            return


# When to check a task again whose deadline passed while it was leased.
RECHECK_MS = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One bounded step: how many tasks it moved, whether there is more, and when the
    next is due.
    """

    moved: int
    more: bool
    next_ms: int = 0


async def promote(shard: Shard, *, limit: int = LIMIT) -> Step:
    """Makes tasks READY whose time has come."""
    args: dict[str, Argument] = {
        "limit": limit,
        "tries": TRIES,
        "events": shard.terms.events,
        "woken": WAKE_LIMIT,
        "back": UNPAID_LIMIT,
    }
    more, moved, following = ok("task/promote", "", await shard.run("task/promote", args))
    return Step(int(moved), bool(int(more)), int(float(following)))


async def recall(shard: Shard, *, limit: int = LIMIT) -> Step:
    """Takes back delivered tasks that were not started in time."""
    args: dict[str, Argument] = {"limit": limit, "tries": TRIES}
    more, moved = ok("task/recall", "", await shard.run("task/recall", args))
    return Step(int(moved), bool(int(more)))


async def expire(shard: Shard, *, limit: int = CANCEL_LIMIT) -> Step:
    """Ends waiting tasks whose deadline has passed, where their on_deadline is fail or cancel."""
    args: dict[str, Argument] = {"limit": limit, "how": ending(shard.terms), "again_ms": RECHECK_MS}
    more, moved = ok("task/expire", "", await shard.run("task/expire", args))
    return Step(int(moved), bool(int(more)))


async def unblock(shard: Shard, *, limit: int = UNBLOCK_LIMIT) -> Step:
    """Continues resolving the dependents of ended tasks."""
    args: dict[str, Argument] = {"limit": limit, "tries": TRIES, "events": shard.terms.events}
    (more,) = ok("task/unblock", "", await shard.run("task/unblock", args))
    return Step(0, bool(int(more)))


async def finish_unblocking(shard: Shard) -> None:
    """Resolves all dependents and answers all waiting claims that one call could not."""
    while (await unblock(shard)).more:
        continue
    await answer_all(shard)
