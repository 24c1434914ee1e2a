"""The scripts of DAGs, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.state import FINAL
from tests.reference import dags, planting, spawning
from tests.reference.graphs import counted
from tests.reference.spawning import Spawn
from tests.reference.verbs.roles import refusal, refused
from tests.reference.verbs.submitting import draft_of, lanes_of
from tests.reference.verbs.words import text

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Graph
    from tests.reference.verbs.words import Asked, Reply


def submit(model: Model, asked: Asked) -> Reply:
    """A part of a DAG, which nobody sees yet."""
    lanes, words = lanes_of(asked), [text(word) for word in asked.json("facts")]
    drafts = [draft_of(row, lanes) for row in asked.rows]
    facts = dict(zip(words[::2], words[1::2], strict=True))
    follow = asked.text("follow")
    dag = asked.text("dag")
    if planting.is_open(model, dag) and (why := refusal(model, asked)) is not None:
        return list(why)
    return list(planting.plant(model, dag, drafts, facts=facts, lanes=lanes, follow=follow))


def commit(model: Model, asked: Asked) -> Reply:
    """Makes a DAG visible."""
    total, limit = asked.text("total"), asked.number("limit")
    return list(planting.commit(model, asked.text("dag"), total=total, limit=limit))


def drop(model: Model, asked: Asked) -> Reply:
    """Takes back a DAG that was never committed."""
    limit, idle_ms = asked.number("limit"), asked.number("idle_ms")
    return list(planting.drop(model, asked.text("dag"), limit=limit, idle_ms=idle_ms))


def spawn(model: Model, asked: Asked) -> Reply:
    """Tasks that a running one adds."""
    lanes = lanes_of(asked)
    rows = [(text(row["key"]), draft_of(row, lanes)) for row in asked.rows]
    names = ("parent", "token", "wait", "rule", "gather", "part")
    named = {name: asked.text(name) for name in names}
    forbidden, steps = refused(model, asked), asked.number("steps")
    return spawning.spawn(model, Spawn(**named, rows=rows, steps=steps, forbidden=forbidden))


def cancel(model: Model, asked: Asked) -> Reply:
    """Gives up all of a DAG that has not ended."""
    reason, request, limit = asked.text("reason"), asked.text("request"), asked.number("limit")
    return dags.cancel(model, asked.text("dag"), reason=reason, request=request, limit=limit)


def hold(model: Model, asked: Asked) -> Reply:
    """Hands out nothing more of a DAG."""
    begin, limit = asked.number("begin") == 1, asked.number("limit")
    return list(dags.hold(model, asked.text("dag"), begin=begin, limit=limit))


def unhold(model: Model, asked: Asked) -> Reply:
    """Hands a DAG out again."""
    return list(dags.unhold(model, asked.text("dag"), begin=asked.number("begin") == 1))


def forget(model: Model, asked: Asked) -> Reply:
    """Lets the keys of a DAG that has ended expire."""
    return ["OK", int(dags.forget(model, asked.text("dag"), limit=asked.number("limit")))]


def rank(model: Model, asked: Asked) -> Reply:
    """The critical path anew."""
    ranks = [(text(row["task"]), int(row["rank"])) for row in asked.rows]
    dags.rank(model, asked.text("dag"), ranks, seen=asked.text("seen"))
    return ["OK"]


def edges(model: Model, asked: Asked) -> Reply:
    """What the tasks of a DAG wait for, all in one page."""
    graph = dags.there(model, asked.text("dag"))
    if graph is None:
        return ["GONE"]
    found = [model.tasks[task] for task in graph.members[asked.number("from") :]]
    live = [record for record in found if record.state not in FINAL]
    rows = [(record.id, str(record.rank), " ".join(sorted(record.waits))) for record in live]
    return ["OK", "", *(word for row in rows for word in row)]


def follow(model: Model, asked: Asked) -> Reply:
    """The DAG that follows another."""
    done, refused = asked.number("done") == 1, asked.text("refused")
    return ["OK", dags.follow(model, asked.text("dag"), done=done, refused=refused)]


def budget(model: Model, asked: Asked) -> Reply:
    """What all tasks of a DAG may cost."""
    dag, limit = asked.text("dag"), asked.number("limit")
    word = dags.set_budget(model, dag, asked.text("micro_usd"), limit=limit)
    return [word, 0] if word == "OK" else [word]


def steps(model: Model, asked: Asked) -> Reply:
    """What others must go on with."""
    found = dags.steps(model, limit=asked.number("limit"), idle_ms=asked.number("idle_ms"))
    return ["OK", *(word for step, at in found for word in (step, str(at)))]


def read(model: Model, asked: Asked) -> Reply:
    """A DAG, and a page of its tasks."""
    graph, start = dags.there(model, asked.text("dag")), asked.number("from")
    if graph is None:
        return ["GONE"]
    return ["OK", flat(model, graph), graph.members[start : start + asked.number("limit")]]


def facts(model: Model, asked: Asked) -> Reply:
    """What is kept of some DAGs."""
    known = [dags.there(model, text(row["dag"])) for row in asked.rows]
    return ["OK", *([] if graph is None else flat(model, graph) for graph in known)]


def listed(model: Model, asked: Asked) -> Reply:
    """A page of the DAGs, the newest first."""
    known = [graph for dag in model.dags if (graph := dags.there(model, dag)) is not None]
    known.sort(key=lambda graph: (graph.listed_ms, graph.id), reverse=True)
    start = asked.number("from")
    page = known[start : start + asked.number("limit")]
    return ["OK", len(page), *(word for graph in page for word in (graph.id, flat(model, graph)))]


def flat(model: Model, graph: Graph) -> list[str]:
    """A DAG as its hash would be told."""
    return [word for pair in fields_of(model, graph).items() for word in pair]


def fields_of(model: Model, graph: Graph) -> dict[str, str]:
    """The hash of a DAG: what is not there is not said."""
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
