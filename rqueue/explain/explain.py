"""The effective priority of a task, its terms, and its position among the claimable tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import ScriptFault, TaskNotFound, WrongState
from rqueue.producer.drafts import to_ms
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import text
from rqueue.task.lane import POINT
from rqueue.task.priority import MINUTE_MS, deadline_boost, effective, tier
from rqueue.task.state import LEASED, LIVE, State

if TYPE_CHECKING:
    from rqueue.operations import Operations
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.ids import TaskId
    from rqueue.task.lane import Lane
    from rqueue.task.priority import Tier
    from rqueue.task.task import Task


# Attempts to read a position; one fails if a new lane is created meanwhile.
ATTEMPTS = 3


class Standing(NamedTuple):
    """The position of a task in its lane at one moment, in the units of the moves. If the task is
    not READY (`stands` is False), `before` and `ahead` are computed as if it were.
    """

    now_ms: int
    state: State
    score: int
    lane: Lane
    number: int
    priority: int | None
    path_boost: int
    stands: bool
    before: int
    ahead: int


async def standing(shard: Shard, task: TaskId) -> Standing:
    """Returns the position of a task. Takes time proportional to the number of lanes. Raises
    TaskNotFound.
    """
    reply: list[bytes] = []
    for _ in range(ATTEMPTS):
        lanes = (await read_lanes(shard)).by_number()
        rates = [[number, lane.micro_rate] for number, lane in lanes.items()]
        args: dict[str, Argument] = {"task": task.ulid, "lanes": json.dumps(rates)}
        reply = await shard.run("task/explain", args)
        match [text(word) for word in reply]:
            case ["OK", now, state, score, number, priority, boost, stands, before, ahead]:
                return Standing(
                    now_ms=int(now),
                    state=State(state),
                    score=int(score),
                    lane=lanes[int(number)],
                    number=int(number),
                    priority=int(priority) if priority else None,
                    path_boost=int(boost),
                    stands=stands == "1",
                    before=int(before),
                    ahead=int(ahead),
                )
            case ["GONE"]:
                raise TaskNotFound(task)
    raise ScriptFault("task/explain", reply)


@dataclass(frozen=True, slots=True)
class Written:
    """The stored parts of a task's priority: score, base priority and critical-path boost in
    points, and the timestamps that they depend on.
    """

    score: int
    base: float
    path_boost: float
    created_ms: int
    late_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """`effective = base - age_boost - deadline_boost - path_boost`, in points; a lower value is
    claimed sooner.

    `slack_sec` is the time left until the latest start that meets the deadline, None without a
    deadline. The stored deadline boost changes in whole points: `deadline_boost` is the stored
    value, `deadline_boost_now` the exact one.
    """

    base: float
    rate: float
    age_sec: float
    age_boost: float
    slack_sec: float | None
    deadline_boost: float
    deadline_boost_now: float
    path_boost: float
    effective: float


def terms_of(written: Written, rate: float, now_ms: int) -> Terms:
    """Returns the terms. They add up to the value that a claim compares."""
    counts = effective(written.score / POINT, rate, now_ms)
    gained = written.base - written.path_boost - counts
    age_ms = now_ms - written.created_ms
    by_age = rate * age_ms / MINUTE_MS
    if written.late_ms is None:
        # A score that was rewritten, for example by a debounce, ages from the time of the rewrite.
        age_ms = round(gained / rate * MINUTE_MS) if rate else age_ms
        by_age, slack_sec = gained, None
    else:
        slack_sec = (written.late_ms - now_ms) / 1000
    return Terms(
        base=written.base,
        rate=rate,
        age_sec=age_ms / 1000,
        age_boost=by_age,
        slack_sec=slack_sec,
        deadline_boost=gained - by_age,
        deadline_boost_now=0.0 if slack_sec is None else deadline_boost(slack_sec),
        path_boost=written.path_boost,
        effective=counts,
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """A task's effective priority with its terms, and its position.

    `position` is 1 for the next task of its lane. `ahead` is how many tasks a worker that serves
    all lanes would claim before it. If the task is waiting (`stands` is False), both are computed
    as if it were READY. For a leased task they are None.
    """

    task: TaskId
    state: State
    terms: Terms
    tier: Tier
    lane: Lane
    lane_number: int
    stands: bool
    position: int | None
    ahead: int | None
    worker: str | None = None


async def explain(operations: Operations, task: str) -> Explanation:
    """Returns the explanation of a task that has not ended; raises TaskNotFound and WrongState."""
    found = await operations.get(task)
    if found.ended:
        raise WrongState(found.id, found=found.state, wanted=LIVE)
    place = await standing(operations.shard, found.id)
    if place.state not in LIVE:
        raise WrongState(found.id, found=place.state, wanted=LIVE)
    terms = terms_of(written(found, place), place.lane.rate, place.now_ms)
    waits = place.state not in LEASED
    return Explanation(
        task=found.id,
        state=place.state,
        terms=terms,
        tier=tier(terms.effective),
        lane=place.lane,
        lane_number=place.number,
        stands=place.stands,
        position=place.before + 1 if waits else None,
        ahead=place.ahead if waits else None,
        worker=found.claim.agent_id if found.claim and not waits else None,
    )


def written(task: Task, place: Standing) -> Written:
    """Returns the stored parts of a task's priority."""
    spec = task.spec
    late_ms = None
    if spec.deadline is not None:
        late_ms = to_ms(spec.deadline) - round((spec.expected_duration_sec or 0.0) * 1000)
    return Written(
        score=place.score,
        base=spec.priority if place.priority is None else place.priority / POINT,
        path_boost=place.path_boost / POINT,
        created_ms=to_ms(task.created_at),
        late_ms=late_ms,
    )
