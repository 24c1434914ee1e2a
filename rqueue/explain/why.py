"""The conditions that block a task, with a sentence for the user, and its earliest possible
start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.budgets.accounts import budgets
from rqueue.core.workers import read_fleet, requirements_of, serving
from rqueue.errors import ScriptFault, TaskNotFound, WrongState
from rqueue.explain.explain import explain
from rqueue.store.lanes import lane_words, read_lanes
from rqueue.store.replies import moment, text
from rqueue.task.fields import MICRO
from rqueue.task.ids import TaskId
from rqueue.task.limits import QUEUE
from rqueue.task.state import LEASED, LIVE, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.operations import Operations
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Lane


NO_WORKER, LIMIT, SLOWED, BUDGET = "no worker", "limit", "slowed", "budget"
EXCLUSIVE, ANY_WORKER = "alone", "a worker"
ALL_WORKERS = "every worker that could run it"
SENTENCES = {
    "dependency": "waits for task {what}",
    "dependencies": "waits for {what} tasks",
    "time": "waits for its start time: {what}",
    "paused": "{what} is paused",
    "given up": "{what} is being cancelled",
    "breaker": "the breaker of its type is {what}",
    SLOWED: "its {what} is slowed down: a service limits the rate of requests",
    LIMIT: "the limit of {what} is reached",
    BUDGET: "exceeds the remaining budget of {what}",
    EXCLUSIVE: "is exclusive because its worker was lost: waits until {what} holds no other task",
    "worker": "is leased by {what}",
    "unwritten": "its DAG {what} is not committed yet",
    NO_WORKER: "no live worker offers {what}",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """One condition that blocks a task. `word` is its kind and `what` its subject. `until` is when
    it ends, None if that is unknown.
    """

    word: str
    what: str = ""
    until: datetime | None = None


def earliest(holds: Sequence[Hold], now: datetime) -> datetime | None:
    """Returns when a task can start at the earliest: the end of its last hold, or now without a
    hold. None if the end of a hold is unknown.
    """
    if any(hold.until is None for hold in holds):
        return None
    return max((hold.until for hold in holds if hold.until is not None), default=now)


def sentence_of(hold: Hold) -> str:
    """Returns the sentence that describes a hold."""
    sentence = SENTENCES.get(hold.word, hold.word + " {what}")
    what = named(hold).replace("=", " ")
    return sentence.format(what=what) if what else sentence.format(what="").rstrip(": ")


def named(hold: Hold) -> str:
    """Returns the subject of a hold for display. A limit belongs to a type, a tenant or the
    queue.
    """
    if hold.word == EXCLUSIVE:
        return hold.what or ANY_WORKER
    if hold.word not in (LIMIT, SLOWED):
        return hold.what
    type, at, key = hold.what.partition("@")
    if hold.word == SLOWED:
        return f"tenant {key}" if at else f"type {type}"
    if at:
        return f"tenant {key}" if type == QUEUE else f"tenant {key} in type {type}"
    return "the queue" if type == QUEUE else f"type {type}"


# Attempts to read the holds of a task; one fails if the task changes its lane meanwhile.
ATTEMPTS = 3
# The maximum number of dependencies that are listed.
NAMED = 20
# Rows of the reply that describe the task; they are not holds.
PRICE, TURN = "price", "turn"


class Found(NamedTuple):
    """The holds of a task at one moment, its lane and its expected cost. `turns` is the number of
    tasks with an earlier turn, None if the lane has no turns by tenant.
    """

    now: datetime
    state: State
    lane: Lane
    holds: list[Hold]
    turns: int | None = None
    price_usd: float = 0.0


async def holds(shard: Shard, task: TaskId) -> Found:
    """Returns the holds of a task; raises TaskNotFound."""
    reply: list[bytes] = []
    for _ in range(ATTEMPTS):
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
                return Found(moment(int(now)), State(text(state)), lane, found, turns, price)
            case "GONE":
                raise TaskNotFound(task)
    raise ScriptFault("task/why", reply)


def hold_of(row: list[str]) -> Hold:
    """Returns the hold in one row of the reply."""
    word, what, until = row
    name = TaskId.from_ulid(what) if word == "dependency" else what
    return Hold(word, name, moment(int(float(until))) if until else None)


@dataclass(frozen=True, slots=True)
class Why:
    """All holds of a task, and when it can start at the earliest, None if that depends on more than
    time. `ahead` is how many tasks come before it by priority, None for a leased task. `turns` is
    how many tasks of its lane have an earlier turn, None without turns by tenant.
    """

    task: TaskId
    state: State
    holds: Sequence[Hold]
    earliest: datetime | None
    ahead: int | None
    turns: int | None = None


async def why(operations: Operations, task: str) -> Why:
    """Returns why a task that has not ended does not run. Raises TaskNotFound and WrongState."""
    place = await explain(operations, task)
    found = await holds(operations.shard, place.task)
    if found.state not in LIVE:
        raise WrongState(place.task, found=found.state, wanted=LIVE)
    held = list(found.holds)
    if found.state not in LEASED and found.state is not State.CREATED:
        capable = serving(await read_fleet(operations.shard), found.lane)
        if not capable:
            held.append(Hold(NO_WORKER, requirements_of(found.lane)))
        elif not await any_budget_covers(operations.shard, capable, found.price_usd):
            held.append(Hold(BUDGET, ALL_WORKERS))
    start = earliest(held, found.now)
    return Why(place.task, found.state, held, start, place.ahead, found.turns)


async def any_budget_covers(shard: Shard, workers: Sequence[str], usd: float) -> bool:
    """Returns whether one of these workers has no budget, or enough left of it for this amount."""
    found = await budgets(shard)
    remaining = [
        one.remaining_usd for name in workers if (one := found.of_worker(name)) is not None
    ]
    return len(remaining) < len(workers) or any(left is None or left >= usd for left in remaining)
