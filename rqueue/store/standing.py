"""Where a task stands among those that may be claimed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import ScriptFault, TaskNotFound
from rqueue.model.state import State
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.model.ids import TaskId
    from rqueue.model.lane import Lane
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# How often it is asked for while new lanes come up in between.
ASKED = 3


class Standing(NamedTuple):
    """A task in its lane at one moment, numbers as scripts count. Where it does not stand there,
    `before` and `ahead` say how many would come before it if it were READY now.
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
    """Where a task stands, in time that grows with the lanes alone; raises TaskNotFound."""
    reply: list[bytes] = []
    for _ in range(ASKED):
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
