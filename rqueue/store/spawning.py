"""Spawning: a task that runs adds others to its DAG, and may wait for them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.errors import (
    InvalidGraph,
    LeaseLost,
    RQueueError,
    ScriptFault,
    SpawnRefused,
    TooManyLanes,
)
from rqueue.model.ids import TaskId
from rqueue.model.state import State
from rqueue.store.planting import NAME_TAKEN
from rqueue.store.queue import answer_all
from rqueue.store.replies import text
from rqueue.store.roles import forbidden, who_of
from rqueue.store.shard import EDGES, FREED
from rqueue.store.submits import Draft, fitting, lanes_text

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.model.subtask import Wait
    from rqueue.store.leases import Held
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# New tasks a call: the server does nothing else meanwhile.
PAGE = 100
# How long the parts of a wait are kept for the next one; a worker that is silent has lost its task.
GATHER_MS = 3_600_000
# What is wrong with a task to be spawned, by the script's word.
WRONG = {
    "PARENT": "depends on a task that is not there or was cancelled",
    "EXISTS": NAME_TAKEN,
    "CYCLE": "waits for a task that waits for the one that spawns it",
    "FAR": f"depends on more than {EDGES} edges, too many to look for a circle",
}


class Seedling(NamedTuple):
    """A task to be spawned: the key under which its parent knows it, its id if it is new. Its draft
    says who asks for it where that one names another as its creator.
    """

    key: str
    id: TaskId
    draft: Draft


class Spawned(NamedTuple):
    """What a key stands for: its task and the state it is in."""

    id: TaskId
    state: State | None


class Grown(NamedTuple):
    """What a spawn came to. A parent that is suspended has left its worker: its code must stop."""

    suspended: bool
    tasks: list[Spawned]


class Part(NamedTuple):
    """Until when the parent is to wait, and which part of a wait of several calls a call is, by its
    name; one that is whole is of no such wait.
    """

    wait: Wait
    gather: str = ""
    part: Literal["", "first", "next", "last"] = ""


async def spawn(shard: Shard, parent: Held, tasks: Sequence[Seedling], *, wait: Wait = "") -> Grown:
    """Adds tasks to the DAG of the one that runs, those of new keys, and tells of all. Raises
    LeaseLost, SpawnRefused, Forbidden, InvalidGraph and TooManyLanes, and then nothing was added:
    of more than a page, nothing of the page that was refused and of those behind it.

    Of more than a page the parent waits for none until all are there: the last call lets it.
    """
    parts = list(pages(tasks))
    if len(parts) <= 1:
        return await send(shard, parent, tasks, Part(wait))
    gather = secrets.token_hex(8)
    found: list[Spawned] = []
    for at, page in enumerate(parts):
        part = Part(wait, gather, "next" if at else "first") if wait else Part(wait)
        found += (await send(shard, parent, page, part)).tasks
    if not wait:
        return Grown(False, found)
    last = await send(shard, parent, (), Part(wait, gather, "last"))
    return Grown(last.suspended, found)


def pages(tasks: Sequence[Seedling]) -> Iterator[Sequence[Seedling]]:
    """The tasks in the portions that are sent."""
    drafts, start = [task.draft for task in tasks], 0
    while start < len(tasks):
        end = fitting(drafts, start, min(start + PAGE, len(tasks)))
        yield tasks[start:end]
        start = end


async def send(shard: Shard, parent: Held, tasks: Sequence[Seedling], part: Part) -> Grown:
    """One call, safe to send again: what is there is only told of."""
    lanes = tuple(dict.fromkeys(task.draft.lane for task in tasks))
    args: dict[str, Argument] = {
        "parent": parent.task,
        "token": parent.token,
        "wait": part.wait,
        "rule": shard.terms.spawn_rule,
        "max_nodes": shard.terms.max_nodes,
        "lanes": lanes_text(lanes),
        "max_lanes": shard.terms.max_lanes,
        "steps": EDGES,
        **FREED,
        "gather": part.gather,
        "part": part.part,
        "keep_ms": GATHER_MS,
        "who": who_of(shard.terms, tuple(dict.fromkeys(t.draft.by for t in tasks if t.draft.by))),
    }
    reply = await shard.run("dag/spawn", args, rows_of(tasks, lanes))
    if text(reply[0]) != "OK":
        raise refusal(shard, parent, [text(word) for word in reply])
    if int(reply[1]):
        await answer_all(shard)
    found = [text(word) for word in reply[3:]]
    return Grown(
        text(reply[2]) == "SUSPENDED",
        [
            Spawned(TaskId.from_ulid(ulid), None if state == "GONE" else State(state))
            for ulid, state in zip(found[::2], found[1::2], strict=True)
        ],
    )


def rows_of(tasks: Sequence[Seedling], lanes: Sequence[Lane]) -> list[tuple[Argument, ...]]:
    """The tasks as lua/dag/spawn.lua reads them."""
    indexes = {lane: index for index, lane in enumerate(lanes, 1)}
    return [
        (
            task.key,
            task.id.ulid,
            # Its rank among the others is found when the DAG's critical path is.
            f"{task.draft.place(indexes[task.draft.lane])} 0",
            task.draft.definition,
            f"{task.draft.more}\n{wishes(task.draft)}",
        )
        for task in tasks
    ]


def wishes(draft: Draft) -> str:
    """What the script alone must know; all that a spawned task waits for is there already."""
    found = json.loads(draft.ask) if draft.ask else {}
    if "parents" in found:
        found["outside"] = found.pop("parents")
    return json.dumps(found, separators=(",", ":")) if found else ""


def refusal(shard: Shard, parent: Held, words: Sequence[str]) -> RQueueError:
    """Why nothing was spawned."""
    task, (word, *rest) = TaskId.from_ulid(parent.task), words
    terms = shard.terms
    match word:
        case "LOST":
            return LeaseLost(task, parent.token)
        case "LANES":
            return TooManyLanes(terms.max_lanes)
        case "FORBIDDEN":
            return forbidden(rest[0])
        case "RULE" | "FULL" | "CLOSED":
            said = {
                "RULE": f"its DAG's rule is {' '.join(rest)}",
                "FULL": f"its DAG has {terms.max_nodes} tasks, the most it may (max_dag_nodes)",
                "CLOSED": "its DAG is being given up",
            }
            return SpawnRefused(task, said[word])
        case "PARENT" | "EXISTS" | "CYCLE" | "FAR":
            key, *others = rest
            return InvalidGraph(WRONG[word], (task, key, *map(TaskId.from_ulid, others)))
        case _:
            return ScriptFault("dag/spawn", list(words))
