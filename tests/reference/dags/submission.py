"""Submitting a DAG: hidden parts are written, then committed together, or dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.claiming import answer
from tests.reference.dags.graph import add_dependencies, is_fired, open_parents
from tests.reference.records import TIME, Draft, Graph, Record
from tests.reference.submitting import due_of, named_already, write

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.model import Model

# A move's reply: OK or another word, and its details.
MoveReply = tuple[object, ...]


def submit_part(
    model: Model,
    dag: str,
    drafts: Sequence[Draft],
    *,
    facts: Mapping[str, str],
    lanes: Sequence[Lane],
    follow: str = "",
) -> MoveReply:
    """Writes a part of a DAG: OK, or why not. A part sent again changes nothing."""
    graph = model.graph(dag)
    names: dict[str, str] = {}
    if graph is not None and graph.dropping:
        return "STATE", "dropping"
    for draft in drafts:
        refused = refusal(model, graph, draft, names)
        if refused is not None:
            return refused
    if any(model.lane_number(lane) is None for lane in lanes):
        return ("LANES",)
    if graph is None:
        graph = Graph(dag, created_ms=model.now_ms, facts=dict(facts), follow=follow)
        model.dags[dag] = graph
    graph.written_ms = model.now_ms
    for draft in drafts:
        if model.find(draft.id) is None and not waits_inside(draft):
            graph.fresh.append(draft.id)
        create(model, graph, draft)
    return ("OK",)


def is_open(model: Model, dag: str) -> bool:
    """Whether parts of a DAG may be written: it is new, or neither committed nor dropped."""
    graph = model.graph(dag)
    return graph is None or (graph.status == "writing" and not graph.dropping)


def refusal(
    model: Model, graph: Graph | None, draft: Draft, names: dict[str, str]
) -> MoveReply | None:
    """The reply to a part because of one of its tasks; None if it can be written. `names` are the
    external ids of the tasks before it.
    """
    record = model.find(draft.id)
    known = record is not None
    _, lost = external_dependencies(model, draft)
    duplicate = None if known else duplicate_of(model, draft, names)
    if graph is not None and graph.status != "writing":
        return ("OK",) if known else ("STATE", graph.status)
    if record is not None and (graph is None or record.dag != graph.id):
        return "EXISTS", draft.id, draft.id
    if lost is not None:
        return "PARENT", draft.id, lost
    return None if duplicate is None else ("EXISTS", draft.id, duplicate)


def duplicate_of(model: Model, draft: Draft, names: dict[str, str]) -> str | None:
    """The task with the same external id: one before it in the call, or a stored one."""
    ext = draft.special.ext
    if ext is None:
        return None
    found = names.get(ext) or named_already(model, ext, besides="")
    names[ext] = draft.id
    return found


def external_dependencies(model: Model, draft: Draft) -> tuple[list[str], str | None]:
    """The dependencies of a task outside its DAG, or the first that can never be met."""
    trigger, others = draft.special.trigger, bool(draft.inside)
    return open_parents(model, draft.parents, trigger, others=others)


def create(model: Model, graph: Graph, draft: Draft) -> Record:
    """Creates a hidden task of a DAG, or adds further dependencies to one."""
    record = model.find(draft.id)
    if record is None:
        before = model.names.get(draft.special.ext or "", "")
        record = write(model, draft, model.lanes[draft.lane], due_ms=due_of(model, draft))
        record.state, record.dag, record.rank = State.CREATED, graph.id, draft.rank
        record.previous_named = before
        graph.members.append(record.id)
        outside, _ = external_dependencies(model, draft)
        record.fired = is_fired(model, draft.parents, draft.special.trigger)
        add_dependencies(model, record, outside)
        graph.edges += len(outside)
    fresh = [parent for parent in draft.inside if parent not in record.waits]
    graph.edges += len(fresh)
    record.above += fresh
    add_dependencies(model, record, draft.inside)
    return record


def waits_inside(draft: Draft) -> bool:
    """Whether only completions in its DAG can unblock a task, so that nothing can before the
    commit. External ids are checked at the commit.
    """
    external = draft.parents or draft.delay_ms or draft.at_ms is not None
    special = draft.special.trigger != "all_success" or draft.special.ext is not None
    return bool(draft.inside) and not external and not special


def commit(model: Model, dag: str, *, total: str, limit: int) -> MoveReply:
    """Makes a completely written DAG visible and processes its tasks. Returns OK and whether there
    are more, or why it cannot.
    """
    graph, step = model.graph(dag), f"commit {dag}"
    if graph is None:
        return ("GONE",)
    refused = commit_refusal(graph, total)
    if refused is not None:
        return refused
    if graph.status == "writing":
        graph.status, graph.listed_ms = "pending", model.now_ms
        model.unfinished[step] = 0
        model.submitted += len(graph.members)
        for task in graph.members:
            if task not in graph.fresh:
                model.tasks[task].state = State.PENDING
    page, more = next_page(model, graph, step, limit)
    if not more:
        graph.fresh = []
    entered = {commit_one(model, model.tasks[task]) for task in page} - {None}
    if entered:
        answer(model, {lane for lane in entered if lane is not None})
    return "OK", int(more)


def commit_refusal(graph: Graph, total: str) -> MoveReply | None:
    """Why a DAG cannot be committed: it is not completely written, or is being dropped."""
    if graph.dropping:
        return "STATE", "dropping"
    written = str(len(graph.members))
    if graph.status == "writing" and written != total:
        return "STATE", f"writing {written} of {total}"
    return None


def next_page(model: Model, graph: Graph, step: str, limit: int) -> tuple[list[str], bool]:
    """The next tasks of an unfinished operation on a DAG, and whether there may be more; ends the
    operation where there are not.
    """
    if step not in model.unfinished:
        return [], False
    at = model.unfinished.pop(step)
    members = graph.fresh if step.startswith("commit") else graph.members
    page = members[at : at + limit]
    if len(page) == limit:
        model.unfinished[step] = at + limit
    return page, len(page) == limit


def commit_one(model: Model, record: Record) -> int | None:
    """Makes a task of a committed DAG PENDING or READY. Returns the lane it enters."""
    if record.state is not State.CREATED:
        return None
    if record.fired:
        record.waits &= {TIME}
        record.fired = False
    if not record.waits:
        return model.make_ready(record)
    record.state = State.PENDING
    if record.doomed:
        model.cancelling[record.id] = "cascade", record.doomed
        record.doomed = ""
    return None


def drop(model: Model, dag: str, *, limit: int, idle_ms: int) -> MoveReply:
    """Deletes a DAG that was not committed, up to a number of tasks and edges. Returns OK and
    whether there are more. Which edges of a task are deleted first is up to the server.
    """
    graph = model.graph(dag)
    if graph is None:
        return "OK", 0
    if graph.status != "writing":
        return "STATE", graph.status
    if graph.written_ms > model.now_ms - idle_ms:
        return "OK", 0
    graph.dropping, left = True, limit
    while graph.members:
        record = model.tasks[graph.members[0]]
        edges = len(record.waits)
        if edges >= left and left < limit:
            break
        if edges > limit:
            record.waits -= set(sorted(record.waits)[:limit])
            break
        delete_hidden(model, model.tasks.pop(graph.members.pop(0)))
        left -= edges + 1
    if graph.members:
        return "OK", 1
    del model.dags[dag]
    return "OK", 0


def delete_hidden(model: Model, record: Record) -> None:
    """Deletes a hidden task; its external id refers to the previous task again."""
    model.deadlines.pop(record.id, None)
    ext = record.special.ext
    if ext is None or model.names.get(ext) != record.id:
        return
    if model.find(record.previous_named) is None:
        del model.names[ext]
    else:
        model.names[ext] = record.previous_named
