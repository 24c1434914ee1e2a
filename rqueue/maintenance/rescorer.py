"""Rewrites a task's score when the urgency of its deadline has grown by a point."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, log
from typing import TYPE_CHECKING, NamedTuple

from rqueue.core.index import call
from rqueue.core.timers import clock
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK
from rqueue.task.lane import micro
from rqueue.task.priority import DEADLINE_BOOST, DEADLINE_TAU_SEC, deadline_boost

if TYPE_CHECKING:
    from rqueue.core.reader import Reader
    from rqueue.store.shard import Shard
    from rqueue.task.task import Task


# Earlier than this before its deadline (and its expected duration) a task gains less than a point.
HORIZON_SEC = DEADLINE_TAU_SEC * log(DEADLINE_BOOST)
POINT = 1.0
# Tolerance: the time of a whole point is computed by a logarithm, whose error must not skip a
# point.
LEAST = 1e-6
# The longest expected duration that makes a task urgent earlier.
LONGEST_TASK_SEC = 86_400
# Tasks read per tick; the next tick continues.
LIMIT = 5000


def has_moved(boost: float, written: float) -> bool:
    """Whether the urgency is a point above what was written last."""
    return boost - written >= POINT - LEAST


def moves_in_sec(slack_sec: float, written: float | None = None) -> float | None:
    """How long until the urgency is a point above `written`, or above that at this slack; None when
    it has reached its maximum.
    """
    if slack_sec <= 0:
        return None
    wanted = (deadline_boost(slack_sec) if written is None else written) + POINT
    if wanted >= DEADLINE_BOOST:
        return slack_sec
    return max(0.0, slack_sec - DEADLINE_TAU_SEC * log(DEADLINE_BOOST / wanted))


class Urgency(NamedTuple):
    """A task's urgency now and when it was submitted, in millionths of a point."""

    task: str
    boost: int
    was: int


async def server_ms(shard: Shard) -> int:
    """The server's time."""
    seconds, micros = await shard.runner.connection.call(clock, what="TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def near_deadlines(
    shard: Shard, until_ms: int, *, limit: int = CHUNK
) -> AsyncIterator[list[str]]:
    """Pages of the tasks whose deadline is before `until_ms`, nearest first."""
    key = shard.keys.deadlines()
    number = await call(shard, lambda client: client.zcount(key, "-inf", until_ms))
    for start in range(0, number, limit):
        stop = min(start + limit, number) - 1
        page = await call(shard, lambda client, a=start, b=stop: client.zrange(key, a, b))
        yield [text(task) for task in page]


async def rescore(shard: Shard, rows: Sequence[Urgency]) -> list[str]:
    """Writes the urgency of tasks: OK, GONE or STATE:<found> for each."""
    return [
        text(word) for word in ok("task/rescore", "", await shard.run("task/rescore", rows=rows))
    ]


@dataclass(slots=True)
class Rescored:
    """How many tasks one tick read and moved, and when the next one moves."""

    read: int = 0
    moved: int = 0
    next_ms: int = field(default=0, compare=False)


class Rescorer:
    """Rewrites a task's score each time its urgency has grown by a point. Any number may run: the
    move changes the score by the difference to what was written last.
    """

    name = "rescorer"
    interval_sec = 15.0

    def __init__(self, shard: Shard, reader: Reader) -> None:
        self.shard = shard
        self.reader = reader
        # When to check each task near its deadline again, by the server's clock.
        self.checks: dict[str, float] = {}

    async def tick(self) -> Rescored:
        """Checks every task whose urgency may have grown."""
        rescored = Rescored()
        now_ms = await server_ms(self.shard)
        horizon_ms = round((HORIZON_SEC + LONGEST_TASK_SEC) * 1000)
        checks: dict[str, float] = {}
        async for page in near_deadlines(self.shard, now_ms + horizon_ms):
            due = [task for task in page if self.checks.get(task, 0) <= now_ms]
            if due and rescored.read < LIMIT:
                checks |= await self.rescore_page(due, now_ms, rescored)
            checks |= {
                task: self.checks[task] for task in page if self.checks.get(task, 0) > now_ms
            }
        self.checks = checks
        soonest = min(checks.values(), default=inf)
        if rescored.read >= LIMIT:
            # What was left over is due already.
            soonest = now_ms
        rescored.next_ms = 0 if soonest == inf else ceil(soonest)
        return rescored

    async def rescore_page(
        self, page: list[str], now_ms: int, rescored: Rescored
    ) -> dict[str, float]:
        """Rewrites the scores of a page; returns when to check each task again."""
        rows, again = [], {}
        for ulid, task in zip(page, await self.reader.read(page), strict=True):
            if task is None:
                continue
            slack = slack_sec(task, now_ms / 1000)
            boost = deadline_boost(slack)
            was = deadline_boost(slack_sec(task, task.created_at.timestamp()))
            moved = has_moved(boost, was)
            if moved:
                rows.append(Urgency(ulid, micro(boost), micro(was)))
            # A task that is not rewritten now moves when its urgency is a point above what was
            # written.
            moves = moves_in_sec(slack, boost if moved else was)
            again[ulid] = inf if moves is None else now_ms + moves * 1000
        rescored.read += len(page)
        if rows:
            rescored.moved += (await rescore(self.shard, rows)).count("OK")
        return again


def slack_sec(task: Task, at_sec: float) -> float:
    """The time until the deadline, less the task's expected duration."""
    deadline = task.spec.deadline
    if deadline is None:
        return inf
    return deadline.timestamp() - at_sec - (task.spec.expected_duration_sec or 0.0)
