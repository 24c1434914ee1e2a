"""Submitting a DAG: written in parts that nobody sees, committed whole, or taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.model.state import State
from rqueue.testing.claiming import answer
from rqueue.testing.graphs import block, open_parents
from rqueue.testing.operating import named_already
from rqueue.testing.records import Draft, Graph, Record
from rqueue.testing.submitting import due_of, write

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.testing.model import Model

# A script's reply: OK, or the word for why not, and what belongs to it.
Said = tuple[object, ...]


def plant(
    model: Model,
    dag: str,
    drafts: Sequence[Draft],
    *,
    facts: Mapping[str, str],
    lanes: Sequence[Lane],
    follow: str = "",
) -> Said:
    """Writes a part of a DAG: OK, or why it cannot be. A part sent again changes nothing."""
    graph = model.graph(dag)
    if graph is not None and graph.dropping:
        return "STATE", "dropping"
    for draft in drafts:
        refused = refusal(model, graph, draft)
        if refused is not None:
            return refused
    if any(model.lane_number(lane) is None for lane in lanes):
        return ("LANES",)
    if graph is None:
        graph = Graph(dag, created_ms=model.now_ms, facts=dict(facts), follow=follow)
        model.dags[dag] = graph
    graph.written_ms = model.now_ms
    for draft in drafts:
        create(model, graph, draft)
    return ("OK",)


def refusal(model: Model, graph: Graph | None, draft: Draft) -> Said | None:
    """What a part is answered because of one of its tasks, if it is not simply written."""
    record = model.find(draft.id)
    known = record is not None
    _, lost = open_parents(model, draft.parents, draft.special.trigger)
    namesake = None if known else named_already(model, draft.special.ext, besides="")
    if graph is not None and graph.status != "writing":
        return ("OK",) if known else ("STATE", graph.status)
    if record is not None and (graph is None or record.dag != graph.id):
        return "EXISTS", draft.id, draft.id
    if lost is not None:
        return "PARENT", draft.id, lost
    return None if namesake is None else ("EXISTS", draft.id, namesake)


def create(model: Model, graph: Graph, draft: Draft) -> Record:
    """A task of a DAG that nobody sees yet, or further parents of one."""
    record = model.find(draft.id)
    if record is None:
        record = write(model, draft, model.lanes[draft.lane], due_ms=due_of(model, draft))
        record.state, record.dag, record.rank = State.CREATED, graph.id, draft.rank
        graph.members.append(record.id)
        outside, _ = open_parents(model, draft.parents, draft.special.trigger)
        block(model, record, outside)
        graph.edges += len(outside)
    fresh = [parent for parent in draft.inside if parent not in record.waits]
    graph.edges += len(fresh)
    record.above += fresh
    block(model, record, draft.inside)
    return record


def commit(model: Model, dag: str, *, total: str, limit: int) -> Said:
    """Makes a DAG that is written whole visible, and steps through its tasks: OK and whether there
    is more, or why it cannot be.
    """
    graph, step = model.graph(dag), f"commit {dag}"
    if graph is None:
        return ("GONE",)
    if graph.dropping:
        return "STATE", "dropping"
    written = str(len(graph.members))
    if graph.status == "writing" and written != total:
        return "STATE", f"writing {written} of {total}"
    if graph.status == "writing":
        graph.status, graph.listed_ms = "pending", model.now_ms
        model.unfinished[step] = 0
        model.submitted += len(graph.members)
    page, more = next_page(model, graph, step, limit)
    entered = {commit_one(model, model.tasks[task]) for task in page} - {None}
    if entered:
        answer(model, {lane for lane in entered if lane is not None})
    return "OK", int(more)


def next_page(model: Model, graph: Graph, step: str, limit: int) -> tuple[list[str], bool]:
    """The next tasks of a DAG for something that is begun with it, and whether there may be more;
    it is done with when there are not.
    """
    if step not in model.unfinished:
        return [], False
    at = model.unfinished.pop(step)
    page = graph.members[at : at + limit]
    if len(page) == limit:
        model.unfinished[step] = at + limit
    return page, len(page) == limit


def commit_one(model: Model, record: Record) -> int | None:
    """A CREATED task of a committed DAG waits or is READY; the lane it enters."""
    if record.state is not State.CREATED:
        return None
    if not record.waits:
        return model.make_ready(record)
    record.state = State.PENDING
    if record.doomed:
        model.cancelling[record.id] = "cascade", record.doomed
        record.doomed = ""
    return None


def drop(model: Model, dag: str, *, limit: int, idle_ms: int) -> Said:
    """Takes back a DAG that was never committed, so many tasks and edges: OK and whether there is
    more of it. Which edges of one that has more of them go first is the server's choice.
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
        uncreate(model, model.tasks.pop(graph.members.pop(0)))
        left -= edges + 1
    if graph.members:
        return "OK", 1
    del model.dags[dag]
    return "OK", 0


def uncreate(model: Model, record: Record) -> None:
    """Nothing of a task is left."""
    model.deadlines.pop(record.id, None)
    ext = record.special.ext
    if ext is not None and model.names.get(ext) == record.id:
        del model.names[ext]
