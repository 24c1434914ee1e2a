"""Submitting a DAG: written in parts that nobody sees, then committed whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import InvalidGraph, RQueueError, ScriptFault, TooManyLanes
from rqueue.model.ids import DagId, TaskId
from rqueue.store.dags import ok
from rqueue.store.queue import answer_all
from rqueue.store.replies import text
from rqueue.store.roles import forbidden, who_of
from rqueue.store.shard import TRIES
from rqueue.store.submits import Draft, full, lanes_text, most_of

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# Tasks and edges of one call: it stops the server for a few milliseconds.
PAGE = 200
# More parents than this are kept in a list of their own.
MANY = 16
# Tasks that a commit or a drop looks at in one call.
STEP = 250
ID_TAKEN = "its id is that of a task which is there already; leave `id` out, or make a new one"
NAME_TAKEN = (
    "its external_id is that of a task which is neither dead nor cancelled; give it another"
)
# What a part is answered while an earlier writing of its DAG is taken back.
BEING_DROPPED = ["STATE", "dropping"]


class Node(NamedTuple):
    """One task of a DAG ready to be sent. Parents are ULIDs of tasks before it; those outside the
    DAG are named as a submit names them. `flags` says who waits for it, see `letters`, and
    `below` is its one dependent where it has but one. Its `name` is for people.
    """

    id: TaskId
    draft: Draft
    name: str = ""
    parents: Sequence[str] = ()
    outside: Sequence[str] = ()
    flags: str = ""
    rank: int = 0
    below: str = ""


def letters(edges: Mapping[str, Sequence[str]], triggered: Collection[str]) -> dict[str, str]:
    """What the flags of tasks say of who waits for them, by name; `edges` has the parents of each.
    d: some wait for its completion, h: for any end, being `triggered`. Where one alone waits for
    the completion of each of its parents, that is u, and they are o: they name it in their hashes.
    """
    only = dependents(edges, triggered)
    found: dict[str, set[str]] = {name: {"o"} if name in only else set() for name in edges}
    for name in only.values():
        found[name].add("u")
    for name, parents in edges.items():
        letter = "h" if name in triggered else "d"
        for parent in parents if "u" not in found[name] else ():
            found[parent].add(letter)
    return {name: "".join(sorted(these)) for name, these in found.items()}


def dependents(edges: Mapping[str, Sequence[str]], triggered: Collection[str]) -> dict[str, str]:
    """The one task that waits for the completion of another, where there is but one, and where that
    is so with each of its parents: the name of such a parent, and of the one.
    """
    below: dict[str, list[str]] = {name: [] for name in edges}
    for name, parents in edges.items():
        for parent in parents if name not in triggered else ():
            below[parent].append(name)
    alone = [
        name
        for name, parents in edges.items()
        if name not in triggered and all(len(below[parent]) == 1 for parent in parents)
    ]
    return {parent: name for name in alone for parent in edges[name]}


class Row(NamedTuple):
    """One task, or more parents of it, as lua/dag/submit.lua reads it."""

    task: str
    place: str
    definition: bytes
    flags: str
    parents: str
    special: str
    below: str


class Planting(NamedTuple):
    """A DAG ready to be sent: its own facts, its tasks, each after its parents, the DAG that
    follows it, written as JSON, and who asks for it.
    """

    id: DagId
    facts: Sequence[Argument]
    nodes: Sequence[Node]
    follow: str = ""
    by: tuple[str, ...] = ()


async def submit(shard: Shard, dag: Planting) -> None:
    """Takes a DAG, whole or not at all; sent again, it is the same one. Raises InvalidGraph,
    TooManyLanes, Forbidden, and what calls raise: it may have been taken then, and is if it is sent
    again.
    """
    refused = await write(shard, dag)
    if refused == BEING_DROPPED:
        await drop(shard, dag.id)
        refused = await write(shard, dag)
    if refused != ["OK"]:
        # One that was committed under this id before is another's.
        if refused[0] != "STATE":
            await drop(shard, dag.id)
        raise refusal(shard, dag, refused)
    await commit(shard, dag.id, total=len(dag.nodes))


async def write(shard: Shard, dag: Planting) -> list[str]:
    """Writes all parts, and the first reply that is not plainly OK, if there is one."""
    lanes = tuple(dict.fromkeys(node.draft.lane for node in dag.nodes))
    calls = [partial(asked, shard, dag, lanes, rows) for rows in pages(numbered(dag.nodes, lanes))]
    found = ["OK"]
    for reply in await shard.run_all("dag/submit", calls):
        if isinstance(reply, RQueueError):
            raise reply
        if found == ["OK"]:
            found = [text(word) for word in reply]
    return found


def asked(
    shard: Shard, dag: Planting, lanes: tuple[Lane, ...], rows: Sequence[Row]
) -> tuple[dict[str, Argument], Sequence[Row]]:
    """The arguments and rows of one part."""
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
    """The rows of all tasks, each with its weight; many parents are many rows."""
    indexes = {lane: index for index, lane in enumerate(lanes, 1)}
    for node in nodes:
        draft, parents = node.draft, node.parents
        place = f"{draft.place(indexes[draft.lane])} {node.rank}"
        special, kept = special_of(node), f"{draft.more}\n" if draft.more else ""
        flags = ("m" if draft.more else "") + node.flags + ("p" if len(parents) > MANY else "")
        first = parents[:PAGE]
        yield (
            1 + len(first) + len(node.outside),
            Row(node.id.ulid, place, draft.definition, flags, " ".join(first), special, node.below),
        )
        for start in range(PAGE, len(parents), PAGE):
            more = parents[start : start + PAGE]
            yield len(more), Row(node.id.ulid, place, b"", flags, " ".join(more), kept, node.below)


def special_of(node: Node) -> str:
    """What is not plain about a task, as the script reads it."""
    found = json.loads(node.draft.ask) if node.draft.ask else {}
    found.pop("parents", None)
    if node.outside:
        found["outside"] = node.outside
    ask = json.dumps(found, separators=(",", ":")) if found else ""
    return f"{node.draft.more}\n{ask}" if node.draft.more or ask else ""


def pages(rows: Iterator[tuple[int, Row]]) -> Iterator[list[Row]]:
    """The rows in portions of about the same weight."""
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


def refusal(shard: Shard, dag: Planting, words: list[str]) -> RQueueError:
    """Why a part was not taken."""
    match words:
        case ["LANES"]:
            return TooManyLanes(shard.terms.max_lanes)
        case ["FORBIDDEN" | "FULL" as word, detail]:
            return forbidden(detail) if word == "FORBIDDEN" else full(detail)
        case ["PARENT", task, parent]:
            rule = "depends on a task that is not there or was cancelled"
            return InvalidGraph(rule, (named(dag, task), shown(parent)))
        case ["EXISTS", task, other]:
            rule = ID_TAKEN if task == other else NAME_TAKEN
            return InvalidGraph(rule, (named(dag, task), TaskId.from_ulid(other)))
        case ["STATE", *_]:
            return InvalidGraph("another DAG of this id was committed", (dag.id,))
        case found:
            return ScriptFault("dag/submit", found)


def named(dag: Planting, task: str) -> str:
    """A task as its plan names it."""
    known = (node.name for node in dag.nodes if node.id.ulid == task)
    return next(known, "") or TaskId.from_ulid(task)


def shown(parent: str) -> str:
    """A parent as a refusal names it: an id of ours, or what was asked for."""
    return parent if parent.startswith("@") else TaskId.from_ulid(parent)


async def commit(shard: Shard, dag: DagId, *, total: int | None = None) -> None:
    """Makes a DAG visible and lets its tasks begin; without a total, goes on with that."""
    args: dict[str, Argument] = {
        "dag": dag.ulid,
        "total": "" if total is None else total,
        "limit": STEP,
        "tries": TRIES,
    }
    while int(ok("dag/commit", dag, await shard.run("dag/commit", args))[0]):
        await answer_all(shard)


async def drop(shard: Shard, dag: DagId, *, idle_ms: int = 0) -> None:
    """Takes back a DAG that was never committed."""
    args: dict[str, Argument] = {"dag": dag.ulid, "limit": STEP, "idle_ms": idle_ms}
    while int(ok("dag/drop", dag, await shard.run("dag/drop", args))[0]):
        continue
