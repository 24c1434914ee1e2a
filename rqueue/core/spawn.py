"""Spawning: a running task adds others to its DAG, and may wait for them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.core.counts import answer_all
from rqueue.core.submit import NAME_TAKEN, Draft, fitting, forbidden, lanes_text, who_of
from rqueue.errors import (
    InvalidGraph,
    LeaseLost,
    RQueueError,
    ScriptFault,
    SpawnRefused,
    TooManyLanes,
)
from rqueue.store.replies import NO_DEPENDENCY, text
from rqueue.store.shard import ANSWER_LIMITS, EDGE_LIMIT
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.leases import HeldLease
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Lane
    from rqueue.worker.context.spawn import Wait

# New tasks per call: the server does nothing else meanwhile.
PAGE = 100
# How long the parts of a wait are stored for the next one; a worker that is silent for longer has
# lost its task.
GATHER_MS = 3_600_000
# Why a task cannot be spawned, by the move's word.
WRONG = {
    "PARENT": NO_DEPENDENCY,
    "EXISTS": NAME_TAKEN,
    "CYCLE": "depends on a task that waits for the task that spawns it",
    "FAR": f"depends on more than {EDGE_LIMIT} edges, too many to search for a cycle",
}


class SpawnDraft(NamedTuple):
    """A task to be spawned: the key under which its parent finds it again, and its id if it is new.
    Its draft has `by` where it names another creator.
    """

    key: str
    id: TaskId
    draft: Draft


class Spawned(NamedTuple):
    """The task of a key, and its state."""

    id: TaskId
    state: State | None


class SpawnReply(NamedTuple):
    """Result of a spawn. A suspended parent has left its worker: its code must stop."""

    suspended: bool
    tasks: list[Spawned]


class WaitPart(NamedTuple):
    """Until when the parent waits, and, for a wait that takes several calls, the wait's name and
    which part a call is.
    """

    wait: Wait
    gather: str = ""
    part: Literal["", "first", "next", "last"] = ""


async def spawn(
    shard: Shard, parent: HeldLease, tasks: Sequence[SpawnDraft], *, wait: Wait = ""
) -> SpawnReply:
    """Adds tasks with new keys to the running task's DAG; returns all of them. Raises LeaseLost,
    SpawnRefused, Forbidden, InvalidGraph and TooManyLanes, and then nothing was added: with several
    pages, nothing of the refused page and of those after it.

    With several pages the parent begins to wait with the last call, when all tasks exist.
    """
    parts = list(pages(tasks))
    if len(parts) <= 1:
        return await send(shard, parent, tasks, WaitPart(wait))
    gather = secrets.token_hex(8)
    found: list[Spawned] = []
    for at, page in enumerate(parts):
        part = WaitPart(wait, gather, "next" if at else "first") if wait else WaitPart(wait)
        found += (await send(shard, parent, page, part)).tasks
    if not wait:
        return SpawnReply(False, found)
    last = await send(shard, parent, (), WaitPart(wait, gather, "last"))
    return SpawnReply(last.suspended, found)


def pages(tasks: Sequence[SpawnDraft]) -> Iterator[Sequence[SpawnDraft]]:
    """The tasks in the portions that are sent."""
    drafts, start = [task.draft for task in tasks], 0
    while start < len(tasks):
        end = fitting(drafts, start, min(start + PAGE, len(tasks)))
        yield tasks[start:end]
        start = end


async def send(
    shard: Shard, parent: HeldLease, tasks: Sequence[SpawnDraft], part: WaitPart
) -> SpawnReply:
    """One call, safe to repeat: tasks that exist are only reported."""
    lanes = tuple(dict.fromkeys(task.draft.lane for task in tasks))
    args: dict[str, Argument] = {
        "parent": parent.task,
        "token": parent.token,
        "wait": part.wait,
        "rule": shard.terms.spawn_rule,
        "max_nodes": shard.terms.max_nodes,
        "lanes": lanes_text(lanes),
        "max_lanes": shard.terms.max_lanes,
        "steps": EDGE_LIMIT,
        **ANSWER_LIMITS,
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
    return SpawnReply(
        text(reply[2]) == "SUSPENDED",
        [
            Spawned(TaskId.from_ulid(ulid), None if state == "GONE" else State(state))
            for ulid, state in zip(found[::2], found[1::2], strict=True)
        ],
    )


def rows_of(tasks: Sequence[SpawnDraft], lanes: Sequence[Lane]) -> list[tuple[Argument, ...]]:
    """The rows of lua/dag/spawn.lua."""
    indexes = {lane: index for index, lane in enumerate(lanes, 1)}
    return [
        (
            task.key,
            task.id.ulid,
            # Its rank is computed with the DAG's critical path.
            f"{task.draft.place(indexes[task.draft.lane])} 0",
            task.draft.definition,
            f"{task.draft.more}\n{submit_facts_of(task.draft)}",
        )
        for task in tasks
    ]


def submit_facts_of(draft: Draft) -> str:
    """What the spawn move needs beyond the row; all dependencies of a spawned task
    exist already.
    """
    found = json.loads(draft.submit_facts) if draft.submit_facts else {}
    if "parents" in found:
        found["outside"] = found.pop("parents")
    return json.dumps(found, separators=(",", ":")) if found else ""


def refusal(shard: Shard, parent: HeldLease, words: Sequence[str]) -> RQueueError:
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
            reasons = {
                "RULE": f"its DAG's rule is {' '.join(rest)}",
                "FULL": f"its DAG has {terms.max_nodes} tasks, the most it may (max_dag_nodes)",
                "CLOSED": "its DAG is being cancelled",
            }
            return SpawnRefused(task, reasons[word])
        case "PARENT" | "EXISTS" | "CYCLE" | "FAR":
            key, *others = rest
            return InvalidGraph(WRONG[word], (task, key, *map(TaskId.from_ulid, others)))
        case _:
            return ScriptFault("dag/spawn", list(words))
