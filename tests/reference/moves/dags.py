"""The moves of DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.state import FINAL
from tests.reference.dags import control, spawning, submission
from tests.reference.dags.graph import counted
from tests.reference.dags.spawning import Spawn
from tests.reference.moves.call import text
from tests.reference.moves.roles import refusal, refused
from tests.reference.moves.tasks import draft_of, lanes_of

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply
    from tests.reference.records import Graph


def submit(model: Model, call: Call) -> Reply:
    """Writes a part of a DAG."""
    lanes, words = lanes_of(call), [text(word) for word in call.json("facts")]
    drafts = [draft_of(row, lanes) for row in call.rows]
    facts = dict(zip(words[::2], words[1::2], strict=True))
    follow = call.text("follow")
    dag = call.text("dag")
    if submission.is_open(model, dag) and (why := refusal(model, call)) is not None:
        return list(why)
    return list(submission.submit_part(model, dag, drafts, facts=facts, lanes=lanes, follow=follow))


def commit(model: Model, call: Call) -> Reply:
    """Makes a DAG visible."""
    total, limit = call.text("total"), call.number("limit")
    return list(submission.commit(model, call.text("dag"), total=total, limit=limit))


def drop(model: Model, call: Call) -> Reply:
    """Deletes a DAG that was not committed."""
    limit, idle_ms = call.number("limit"), call.number("idle_ms")
    return list(submission.drop(model, call.text("dag"), limit=limit, idle_ms=idle_ms))


def spawn(model: Model, call: Call) -> Reply:
    """Adds tasks to the DAG of a running task."""
    lanes = lanes_of(call)
    rows = [(text(row["key"]), draft_of(row, lanes)) for row in call.rows]
    names = ("parent", "token", "wait", "rule", "gather", "part")
    named = {name: call.text(name) for name in names}
    forbidden, steps = refused(model, call), call.number("steps")
    return spawning.spawn(model, Spawn(**named, rows=rows, steps=steps, forbidden=forbidden))


def cancel(model: Model, call: Call) -> Reply:
    """Cancels a DAG."""
    reason, request, limit = call.text("reason"), call.text("request"), call.number("limit")
    return control.cancel(model, call.text("dag"), reason=reason, request=request, limit=limit)


def pause(model: Model, call: Call) -> Reply:
    """Pauses a DAG."""
    begin, limit = call.number("begin") == 1, call.number("limit")
    return list(control.pause(model, call.text("dag"), begin=begin, limit=limit))


def resume(model: Model, call: Call) -> Reply:
    """Resumes a DAG."""
    return list(control.resume(model, call.text("dag"), begin=call.number("begin") == 1))


def forget(model: Model, call: Call) -> Reply:
    """Sets the expiry of an ended DAG."""
    return ["OK", int(control.forget(model, call.text("dag"), limit=call.number("limit")))]


def rank(model: Model, call: Call) -> Reply:
    """Updates the ranks of tasks."""
    ranks = [(text(row["task"]), int(row["rank"])) for row in call.rows]
    control.rank(model, call.text("dag"), ranks, seen=call.text("seen"))
    return ["OK"]


def edges(model: Model, call: Call) -> Reply:
    """The dependencies of a DAG's tasks, in one page."""
    graph = control.committed_dag(model, call.text("dag"))
    if graph is None:
        return ["GONE"]
    found = [model.tasks[task] for task in graph.members[call.number("from") :]]
    live = [record for record in found if record.state not in FINAL]
    rows = [(record.id, str(record.rank), " ".join(sorted(record.waits))) for record in live]
    return ["OK", "", *(word for row in rows for word in row)]


def follow(model: Model, call: Call) -> Reply:
    """The DAG that follows another."""
    done, refused = call.number("done") == 1, call.text("refused")
    return ["OK", control.follow(model, call.text("dag"), done=done, refused=refused)]


def budget(model: Model, call: Call) -> Reply:
    """Sets the budget of a DAG."""
    dag, limit = call.text("dag"), call.number("limit")
    word = control.set_budget(model, dag, call.text("micro_usd"), limit=limit)
    return [word, 0] if word == "OK" else [word]


def steps(model: Model, call: Call) -> Reply:
    """Unfinished operations on DAGs."""
    found = control.steps(model, limit=call.number("limit"), idle_ms=call.number("idle_ms"))
    return ["OK", *(word for step, at in found for word in (step, str(at)))]


def read(model: Model, call: Call) -> Reply:
    """A DAG, and a page of its tasks."""
    graph, start = control.committed_dag(model, call.text("dag")), call.number("from")
    if graph is None:
        return ["GONE"]
    return ["OK", flat(model, graph), graph.members[start : start + call.number("limit")]]


def facts(model: Model, call: Call) -> Reply:
    """The facts of several DAGs."""
    known = [control.committed_dag(model, text(row["dag"])) for row in call.rows]
    return ["OK", *([] if graph is None else flat(model, graph) for graph in known)]


def listed(model: Model, call: Call) -> Reply:
    """A page of the DAGs, the newest first."""
    known = [
        graph for dag in model.dags if (graph := control.committed_dag(model, dag)) is not None
    ]
    known.sort(key=lambda graph: (graph.listed_ms, graph.id), reverse=True)
    start = call.number("from")
    page = known[start : start + call.number("limit")]
    return ["OK", len(page), *(word for graph in page for word in (graph.id, flat(model, graph)))]


def flat(model: Model, graph: Graph) -> list[str]:
    """The hash of a DAG as a flat list."""
    return [word for pair in fields_of(model, graph).items() for word in pair]


def fields_of(model: Model, graph: Graph) -> dict[str, str]:
    """The hash of a DAG, without empty fields."""
    numbers = {"total": len(graph.members), "edges": graph.edges} | counted(model, graph)._asdict()
    rare = {
        "dropping": "1" if graph.dropping else "",
        "paused": "1" if graph.paused else "",
        "closing": graph.closing,
        "why": graph.why,
        "request": graph.request,
        "before": "" if graph.before is None else str(graph.before),
        "escalated": str(graph.escalated or ""),
        "spent": str(graph.spent or ""),
        "refused": graph.refused,
        "finished": str(graph.finished_ms or ""),
        "archived": "1" if graph.archived else "",
    }
    return {
        "status": graph.status,
        "created": str(graph.created_ms),
        **graph.facts,
        **{name: str(number) for name, number in numbers.items()},
        **{name: value for name, value in rare.items() if value},
    }
