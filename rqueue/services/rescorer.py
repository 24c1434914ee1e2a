"""Moves tasks forward in their lanes as their deadlines come nearer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING

from rqueue.model.lane import micro
from rqueue.policy.priority import deadline_boost
from rqueue.policy.urgency import HORIZON_SEC, has_moved, moves_in_sec
from rqueue.store.urgency import Urgency, near_deadlines, rescore, server_ms

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

# A task that will take long is urgent earlier: for up to this much longer.
LONGEST_TASK_SEC = 86_400
# A tick reads so many tasks: the next one goes on.
LIMIT = 5000


@dataclass(slots=True)
class Rescored:
    """How many tasks one tick read, how many of them it moved, and when the next one moves."""

    read: int = 0
    moved: int = 0
    next_ms: int = field(default=0, compare=False)


class Rescorer:
    """Writes a task's urgency anew each time it has grown by a point. Any number may run: the
    script moves a task by the difference to what was written last.
    """

    name = "rescorer"
    interval_sec = 15.0

    def __init__(self, shard: Shard, reader: Reader) -> None:
        self.shard = shard
        self.reader = reader
        # When to look again at each task that is near its deadline, by the server's clock.
        self.looks: dict[str, float] = {}

    async def tick(self) -> Rescored:
        """Looks at every task whose urgency has moved."""
        rescored = Rescored()
        now_ms = await server_ms(self.shard)
        horizon_ms = round((HORIZON_SEC + LONGEST_TASK_SEC) * 1000)
        looks: dict[str, float] = {}
        async for page in near_deadlines(self.shard, now_ms + horizon_ms):
            due = [task for task in page if self.looks.get(task, 0) <= now_ms]
            if due and rescored.read < LIMIT:
                looks |= await self.look(due, now_ms, rescored)
            looks |= {task: self.looks[task] for task in page if self.looks.get(task, 0) > now_ms}
        self.looks = looks
        soonest = min(looks.values(), default=inf)
        if rescored.read >= LIMIT:
            # What was left over is late already.
            soonest = now_ms
        rescored.next_ms = 0 if soonest == inf else ceil(soonest)
        return rescored

    async def look(self, page: list[str], now_ms: int, rescored: Rescored) -> dict[str, float]:
        """Rescores the tasks of a page that have moved; when to look at each again."""
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
            # One that is not written now moves when it has a point more than it was written with.
            moves = moves_in_sec(slack, boost if moved else was)
            again[ulid] = inf if moves is None else now_ms + moves * 1000
        rescored.read += len(page)
        if rows:
            rescored.moved += (await rescore(self.shard, rows)).count("OK")
        return again


def slack_sec(task: Task, at_sec: float) -> float:
    """How much time there is at an instant beyond what the task is expected to take."""
    deadline = task.spec.deadline
    if deadline is None:
        return inf
    return deadline.timestamp() - at_sec - (task.spec.expected_duration_sec or 0.0)
