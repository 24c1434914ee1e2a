"""What holds a task back, as the server finds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import ScriptFault, TaskNotFound
from rqueue.model.ids import TaskId
from rqueue.model.money import MICRO
from rqueue.model.state import State
from rqueue.policy.reasons import Hold
from rqueue.store.lanes import lane_words, read_lanes
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# How often it is asked for while the task goes from lane to lane.
ASKED = 3
# Of those that a task waits for, so many are named.
NAMED = 20
# What the script tells of a task that does not hold it back.
PRICE, TURN = "price", "turn"


class Found(NamedTuple):
    """What holds a task back at one moment, the lane it is in, where the tasks of that have turns
    by their keys how many come before it, and what it is expected to cost.
    """

    now: datetime
    state: State
    lane: Lane
    holds: list[Hold]
    turns: int | None = None
    price_usd: float = 0.0


async def holds(shard: Shard, task: TaskId) -> Found:
    """What holds a task back; raises TaskNotFound."""
    reply: list[bytes] = []
    for _ in range(ASKED):
        lanes = (await read_lanes(shard)).by_number()
        number = await shard.runner.connection.call(
            lambda redis: redis.hget(shard.keys.task(task.ulid), "lane"), what="lane"
        )
        if number is None or int(number) not in lanes:
            if number is None:
                raise TaskNotFound(task)
            continue
        lane = lanes[int(number)]
        args: dict[str, Argument] = {
            "task": task.ulid,
            "lane": json.dumps(lane_words(int(number), lane, shard.rules())),
            "limit": NAMED,
        }
        reply = await shard.run("task/why", args)
        match text(reply[0]):
            case "OK":
                _, now, state, *rows = reply
                words = [[text(word) for word in row] for row in rows]
                found = [hold_of(row) for row in words if row[0] not in (TURN, PRICE)]
                turns = next((int(what) for word, what, _ in words if word == TURN), None)
                price = sum(int(what) for word, what, _ in words if word == PRICE) / MICRO
                return Found(instant(int(now)), State(text(state)), lane, found, turns, price)
            case "GONE":
                raise TaskNotFound(task)
    raise ScriptFault("task/why", reply)


def hold_of(row: list[str]) -> Hold:
    """A row of the reply."""
    word, what, until = row
    name = TaskId.from_ulid(what) if word == "dependency" else what
    return Hold(word, name, instant(int(float(until))) if until else None)


def instant(ms: int) -> datetime:
    """A time of the server."""
    return datetime.fromtimestamp(ms / 1000, UTC)
