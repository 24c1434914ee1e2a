"""Operations on a whole DAG: cancel, pause, resume, rank, expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.budgets import readmit
from tests.reference.cancelling import cancel_one
from tests.reference.claiming import answer
from tests.reference.dags.graph import counted
from tests.reference.dags.submission import MoveReply, next_page

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Ended, Graph

OVER = (State.COMPLETED, State.CANCELLED)


def committed_dag(model: Model, dag: str) -> Graph | None:
    """The DAG, if it exists and is committed."""
    graph = model.graph(dag)
    return None if graph is None or graph.status == "writing" else graph


def cancel(model: Model, dag: str, *, reason: str, request: str, limit: int) -> list[object]:
    """Cancels all tasks of a DAG that have not ended. Returns OK, whether there are more, and how
    many were cancelled so far. Without a reason, continues what was begun.
    """
    graph, step = committed_dag(model, dag), f"cancel {dag}"
    if graph is None:
        return ["GONE"]
    fresh, counts = bool(reason) and graph.request != request, counted(model, graph)
    if fresh and not counts.open:
        return ["STATE", graph.status]
    if fresh and not graph.closing:
        graph.closing, graph.why, graph.request = "cancelled", reason, request
        graph.before, model.unfinished[step] = counts.cancelled, 0
    elif fresh:
        graph.request = graph.request or request
    page, more = next_page(model, graph, step, limit)
    ended: list[Ended] = []
    for task in page:
        cancel_one(model, task, f"cancel {request}", ended, why=graph.why, rule="whole")
    model.record_ended(ended)
    cancelled = counted(model, graph).cancelled
    return ["OK", int(more), 0 if graph.before is None else cancelled - graph.before]


def pause(model: Model, dag: str, *, begin: bool, limit: int) -> MoveReply:
    """Pauses a DAG. Returns OK and whether there are more tasks to hold back."""
    graph, step = committed_dag(model, dag), f"hold {dag}"
    if graph is None:
        return ("GONE",)
    if graph.finished_ms is not None and begin:
        return "STATE", graph.status
    if begin and not graph.paused:
        graph.paused = True
        model.unfinished[step] = 0
        model.unfinished.pop(f"unhold {dag}", None)
    page, more = next_page(model, graph, step, limit)
    for task in page:
        record = model.tasks[task]
        record.held = record.state is State.READY
    return "OK", int(more)


def resume(model: Model, dag: str, *, begin: bool = True) -> MoveReply:
    """Resumes a paused DAG, unless it is being cancelled, in one call."""
    graph = committed_dag(model, dag)
    if graph is None:
        return ("GONE",)
    if not begin and f"unhold {dag}" not in model.unfinished:
        return "OK", 0
    graph.paused = False
    for verb in ("hold", "unhold"):
        model.unfinished.pop(f"{verb} {dag}", None)
    if graph.closing:
        return "OK", 0
    held = [r for r in map(model.tasks.__getitem__, graph.members) if r.held and not r.unpaid]
    for record in held:
        record.held = False
    if held:
        answer(model, {record.lane for record in held})
    return "OK", 0


def forget(model: Model, dag: str, *, limit: int) -> bool:
    """Lets the tasks of an ended DAG expire, then the DAG; returns whether there are more. Tasks
    that are not archived yet expire after that. A DAG with a follow-up that is not submitted yet is
    kept.
    """
    step = f"forget {dag}"
    if step not in model.unfinished or f"follow {dag}" in model.unfinished:
        return False
    graph = model.dags[dag]
    page, more = next_page(model, graph, step, limit)
    for task in page:
        record = model.tasks[task]
        if record.state in OVER and (record.archived or not model.archive):
            model.expire_later(record)
    if not more and (graph.archived or not model.archive):
        graph.expires_ms = model.now_ms + model.result_ttl_ms
    return more


def rank(model: Model, dag: str, ranks: Iterable[tuple[str, int]], *, seen: str) -> None:
    """Updates the rank of tasks; a change that came meanwhile is left for the next ranking."""
    for task, rank in ranks:
        record = model.find(task)
        if record is not None and record.state not in OVER:
            record.score -= rank - record.rank
            record.rank = rank
    if seen and str(model.unfinished.get(f"rank {dag}")) == seen:
        del model.unfinished[f"rank {dag}"]


def follow(model: Model, dag: str, *, done: bool, refused: str) -> str:
    """Returns the DAG that follows a completed one; "" if it is committed or was `refused`, which
    is stored.
    """
    graph = model.graph(dag)
    if done:
        named = model.unfinished.pop(f"follow {dag}", None) is not None
        if named and refused and graph is not None:
            graph.refused = refused
        return ""
    return "" if graph is None else graph.follow


def set_budget(model: Model, dag: str, micro_usd: str, *, limit: int) -> str:
    """Sets the budget of a DAG and readmits the tasks that it can pay for."""
    graph = committed_dag(model, dag)
    if graph is None:
        return "GONE"
    graph.facts.pop("budget", None)
    if micro_usd:
        graph.facts["budget"] = micro_usd
    touched, more = readmit(model, dag, limit)
    if more:
        model.wakes[f"${dag}"] = 0
    if touched:
        answer(model, touched)
    return "OK"


def steps(model: Model, *, limit: int, idle_ms: int) -> list[tuple[str, int]]:
    """Returns unfinished operations on DAGs, and DAGs whose producers stopped writing. Operations
    on DAGs that are gone are removed.
    """
    for step in [step for step in model.unfinished if model.graph(step.split(" ")[1]) is None]:
        del model.unfinished[step]
    silent = [
        (f"drop {graph.id}", 0)
        for graph in model.dags.values()
        if graph.status == "writing" and graph.written_ms <= model.now_ms - idle_ms
    ]
    return [*list(model.unfinished.items())[:limit], *silent[:limit]]
