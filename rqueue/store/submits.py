"""Submitting: many tasks in one script call, each with its own answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import InvalidGraph, RQueueError, ScriptFault, TooManyLanes
from rqueue.model.ids import TaskId
from rqueue.model.lane import Lane, signature
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK, TRIES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


class Row(NamedTuple):
    """One task as lua/task/submit.lua reads it."""

    task: str
    lane: int
    base: int
    definition: bytes
    more: str
    ask: str


class Draft(NamedTuple):
    """One task ready to be sent: its id, its lane, its place in it, and what is special."""

    id: TaskId
    lane: Lane
    base: int
    definition: bytes
    more: str = ""
    ask: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The task that answers for a draft: its own, or one that was there before."""

    id: TaskId
    created: bool


async def submit(shard: Shard, drafts: Sequence[Draft]) -> list[Taken | RQueueError]:
    """Each draft's answer, in order. Sent again it creates nothing and says the same."""
    answers: list[Taken | RQueueError] = []
    for start in range(0, len(drafts), CHUNK):
        answers += await submit_chunk(shard, drafts[start : start + CHUNK])
    return answers


async def submit_chunk(shard: Shard, drafts: Sequence[Draft]) -> list[Taken | RQueueError]:
    """`submit` for as many as one call may carry."""
    indexes: dict[Lane, int] = {}
    rows = [
        Row(
            draft.id.ulid,
            indexes.setdefault(draft.lane, len(indexes) + 1),
            draft.base,
            draft.definition,
            draft.more,
            draft.ask,
        )
        for draft in drafts
    ]
    lanes = [[signature(lane), lane.micro_rate] for lane in indexes]
    args: dict[str, Argument] = {
        "lanes": json.dumps(lanes),
        "max_lanes": shard.terms.max_lanes,
        "tries": TRIES,
        "how": shard.terms.ending,
    }
    reply = ok(
        "task/submit",
        "",
        await shard.run("task/submit", args, rows, replicas=shard.terms.wait_replicas),
    )
    answers: list[Taken | RQueueError] = [Taken(draft.id, created=True) for draft in drafts]
    for at in range(1, len(reply), 3):
        index, word, detail = int(reply[at]), text(reply[at + 1]), text(reply[at + 2])
        answers[index] = exception(shard, drafts[index], word, detail)
    return answers


def exception(shard: Shard, draft: Draft, word: str, detail: str) -> Taken | RQueueError:
    """What became of a draft that was not simply taken."""
    match word:
        case "EXISTS":
            return Taken(TaskId.from_ulid(detail), created=False)
        case "LANES":
            return TooManyLanes(shard.terms.max_lanes)
        case "PARENT":
            return InvalidGraph(
                "depends on a task that is not there or was cancelled",
                (draft.id, TaskId.from_ulid(detail)),
            )
        case _:
            return ScriptFault("task/submit", [word, detail])
