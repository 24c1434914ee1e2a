"""Submits a DAG: writes it in invisible parts, then commits it atomically."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rqueue.core.counts import answer_all
from rqueue.core.submit import (
    NAME_TAKEN,
    Draft,
    archive_full,
    forbidden,
    lanes_text,
    most_of,
    who_of,
)
from rqueue.dags.store import ok
from rqueue.errors import InvalidGraph, RQueueError, ScriptFault, TooManyLanes
from rqueue.store.replies import text
from rqueue.store.shard import TRIES
from rqueue.task.ids import DagId, TaskId

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Lane

# Tasks and edges per call. A call of this size blocks the server for a few milliseconds.
PAGE = 200
# A task with more dependencies than this stores them in a separate list.
MANY = 16
# Tasks that a commit or a drop processes in one call.
STEP = 250
ID_TAKEN = "a task with this id exists already; leave out `id`, or use a new one"
# The reply to a part while an earlier, uncommitted submission of the DAG is being dropped.
BEING_DROPPED = ["STATE", "dropping"]


class Node(NamedTuple):
    """One task of a DAG that is ready to be sent. `dependencies` are ULIDs of earlier tasks of the
    DAG. `outside` are dependencies outside the DAG, written as in a single submit. `flags` are
    those of `letters`. `below` is its dependent if it has exactly one. `name` is for error
    messages.
    """

    id: TaskId
    draft: Draft
    name: str = ""
    dependencies: Sequence[str] = ()
    outside: Sequence[str] = ()
    flags: str = ""
    rank: int = 0
    below: str = ""


def letters(edges: Mapping[str, Sequence[str]], triggered: Collection[str]) -> dict[str, str]:
    """Returns the flags of each task by name; they describe its dependents. `edges` has the
    dependencies. d: it has dependents that wait for its completion. h: it has `triggered`
    dependents, which wait for any outcome. u: it is the only dependent of each of its dependencies.
    o: the task has such a dependent, whose id is stored in the hash of the task.
    """
    only = dependents(edges, triggered)
    found: dict[str, set[str]] = {name: {"o"} if name in only else set() for name in edges}
    for name in only.values():
        found[name].add("u")
    for name, dependencies in edges.items():
        letter = "h" if name in triggered else "d"
        for dependency in dependencies if "u" not in found[name] else ():
            found[dependency].add(letter)
    return {name: "".join(sorted(these)) for name, these in found.items()}


def dependents(edges: Mapping[str, Sequence[str]], triggered: Collection[str]) -> dict[str, str]:
    """Maps tasks with exactly one dependent to that dependent, if it is also the only dependent of
    its other dependencies and waits for their completion.
    """
    below: dict[str, list[str]] = {name: [] for name in edges}
    for name, dependencies in edges.items():
        for dependency in dependencies if name not in triggered else ():
            below[dependency].append(name)
    alone = [
        name
        for name, dependencies in edges.items()
        if name not in triggered and all(len(below[dependency]) == 1 for dependency in dependencies)
    ]
    return {dependency: name for name in alone for dependency in edges[name]}


class Row(NamedTuple):
    """One task, or further dependencies of it, as lua/dag/submit.lua reads it."""

    task: str
    place: str
    definition: bytes
    flags: str
    dependencies: str
    special: str
    below: str


class DagDraft(NamedTuple):
    """A DAG that is ready to be sent: its own fields, its tasks in topological order, its follow-up
    plan as JSON, and the principals that submit it.
    """

    id: DagId
    facts: Sequence[Argument]
    nodes: Sequence[Node]
    follow: str = ""
    by: tuple[str, ...] = ()


async def submit(shard: Shard, dag: DagDraft) -> None:
    """Submits a DAG atomically. A repeated call creates no second DAG. Raises InvalidGraph,
    TooManyLanes and Forbidden. After any other error the outcome is unknown, and the caller should
    repeat the call.
    """
    refused = await write(shard, dag)
    if refused == BEING_DROPPED:
        await drop(shard, dag.id)
        refused = await write(shard, dag)
    if refused != ["OK"]:
        # STATE: another DAG with this id is committed and must not be dropped.
        if refused[0] != "STATE":
            await drop(shard, dag.id)
        raise refusal(shard, dag, refused)
    await commit(shard, dag.id, total=len(dag.nodes))


async def write(shard: Shard, dag: DagDraft) -> list[str]:
    """Writes all parts. Returns the first reply that is not OK, else OK."""
    lanes = tuple(dict.fromkeys(node.draft.lane for node in dag.nodes))
    calls = [
        partial(part_call, shard, dag, lanes, rows) for rows in pages(numbered(dag.nodes, lanes))
    ]
    found = ["OK"]
    for reply in await shard.run_all("dag/submit", calls):
        if isinstance(reply, RQueueError):
            raise reply
        if found == ["OK"]:
            found = [text(word) for word in reply]
    return found


def part_call(
    shard: Shard, dag: DagDraft, lanes: tuple[Lane, ...], rows: Sequence[Row]
) -> tuple[dict[str, Argument], Sequence[Row]]:
    """Returns the arguments and rows of the call for one part."""
    args: dict[str, Argument] = {
        "dag": dag.id.ulid,
        "facts": json.dumps(dag.facts),
        "lanes": lanes_text(lanes),
        "max_lanes": shard.terms.max_lanes,
        "follow": dag.follow,
        "who": who_of(shard.terms, dag.by),
        "most": most_of(shard.terms),
    }
    return args, rows


def numbered(nodes: Sequence[Node], lanes: Sequence[Lane]) -> Iterator[tuple[int, Row]]:
    """Yields the rows of all tasks, each with its weight. A task with many dependencies takes
    several rows.
    """
    indexes = {lane: index for index, lane in enumerate(lanes, 1)}
    for node in nodes:
        draft, dependencies = node.draft, node.dependencies
        place = f"{draft.place(indexes[draft.lane])} {node.rank}"
        special, kept = special_of(node), f"{draft.more}\n" if draft.more else ""
        flags = ("m" if draft.more else "") + node.flags + ("p" if len(dependencies) > MANY else "")
        first = dependencies[:PAGE]
        yield (
            1 + len(first) + len(node.outside),
            Row(node.id.ulid, place, draft.definition, flags, " ".join(first), special, node.below),
        )
        for start in range(PAGE, len(dependencies), PAGE):
            more = dependencies[start : start + PAGE]
            yield len(more), Row(node.id.ulid, place, b"", flags, " ".join(more), kept, node.below)


def special_of(node: Node) -> str:
    """Returns the optional parts of a task in the format that the move reads."""
    found = json.loads(node.draft.submit_facts) if node.draft.submit_facts else {}
    found.pop("parents", None)
    if node.outside:
        found["outside"] = node.outside
    submit_facts = json.dumps(found, separators=(",", ":")) if found else ""
    return f"{node.draft.more}\n{submit_facts}" if node.draft.more or submit_facts else ""


def pages(rows: Iterator[tuple[int, Row]]) -> Iterator[list[Row]]:
    """Yields the rows in pages of about the same weight."""
    page: list[Row] = []
    left = PAGE
    for weight, row in rows:
        if page and weight > left:
            yield page
            page, left = [], PAGE
        page.append(row)
        left -= weight
    if page:
        yield page


def refusal(shard: Shard, dag: DagDraft, words: list[str]) -> RQueueError:
    """Returns the error for a reply that refuses a part."""
    match words:
        case ["LANES"]:
            return TooManyLanes(shard.terms.max_lanes)
        case ["FORBIDDEN" | "FULL" as word, detail]:
            return forbidden(detail) if word == "FORBIDDEN" else archive_full(detail)
        case ["PARENT", task, dependency]:
            rule = "depends on a task that does not exist or was cancelled"
            return InvalidGraph(rule, (name_in(dag, task), shown(dependency)))
        case ["EXISTS", task, other]:
            rule = ID_TAKEN if task == other else NAME_TAKEN
            return InvalidGraph(rule, (name_in(dag, task), TaskId.from_ulid(other)))
        case ["STATE", *_]:
            return InvalidGraph("another DAG with this id is committed", (dag.id,))
        case found:
            return ScriptFault("dag/submit", found)


def name_in(dag: DagDraft, task: str) -> str:
    """Returns the name of a task in its plan, by default its id."""
    known = (node.name for node in dag.nodes if node.id.ulid == task)
    return next(known, "") or TaskId.from_ulid(task)


def shown(dependency: str) -> str:
    """Returns a dependency as error messages show it: a task id, or an external id with `@`."""
    return dependency if dependency.startswith("@") else TaskId.from_ulid(dependency)


async def commit(shard: Shard, dag: DagId, *, total: int | None = None) -> None:
    """Commits a DAG: it becomes visible and its tasks can start. Without a total, continues an
    unfinished commit.
    """
    args: dict[str, Argument] = {
        "dag": dag.ulid,
        "total": "" if total is None else total,
        "limit": STEP,
        "tries": TRIES,
    }
    while int(ok("dag/commit", dag, await shard.run("dag/commit", args))[0]):
        await answer_all(shard)


async def drop(shard: Shard, dag: DagId, *, idle_ms: int = 0) -> None:
    """Deletes an uncommitted DAG."""
    args: dict[str, Argument] = {"dag": dag.ulid, "limit": STEP, "idle_ms": idle_ms}
    while int(ok("dag/drop", dag, await shard.run("dag/drop", args))[0]):
        continue
