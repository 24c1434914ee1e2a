"""A DAG as JSON, as DOT for Graphviz and as a Mermaid flowchart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rqueue.cli.dag.picture import label, seconds
from rqueue.cli.output.tables import clean
from rqueue.task.state import LEASED, State

if TYPE_CHECKING:
    from rqueue.dags.view import DagGraph
    from rqueue.task.dag import Dag
    from rqueue.task.task import Task

COLOURS = {
    State.COMPLETED: "#c8e6c9",
    State.DEAD_LETTERED: "#ffcdd2",
    State.CANCELLED: "#e0e0e0",
    State.RETRYING: "#ffe0b2",
    **dict.fromkeys(LEASED, "#b3e5fc"),
}
WAITING = "#ffffff"
# Characters that would end a Mermaid text or start markup in it.
ODD = re.compile(r"[^\w .,:;()/+-]")


def document(dag: Dag) -> dict[str, Any]:
    """A DAG as a JSON document."""
    found = dag.model_dump(mode="json", exclude={"spec"})
    spec = dag.spec.model_dump(mode="json")
    return {**found, **spec, "completed": dag.completed, "ended": dag.ended}


def whole(graph: DagGraph) -> dict[str, Any]:
    """A DAG as a JSON document, with its tasks."""
    path, layers = graph.critical_path(), graph.layers()

    def row(task: Task) -> dict[str, Any]:
        id = str(task.id)
        return {
            "id": id,
            "name": task.spec.name,
            "title": task.spec.title,
            "type": task.type,
            "state": task.state,
            "layer": layers[id],
            "after": [*graph.dependencies[id], *graph.outside[id]],
            "blocked_by": list(task.blocked_by),
            "trigger": task.spec.trigger,
            "dependency_boost": task.dependency_boost,
            "duration_sec": graph.duration_sec(id),
            "expected_duration_sec": task.spec.expected_duration_sec,
            "reason": task.cancel_reason or task.failure_reason,
        }

    return {
        **document(graph.dag),
        "at_rest": graph.at_rest,
        "roots": graph.roots,
        "leaves": graph.leaves,
        "critical_path": path,
        "tasks": [row(task) for task in graph.tasks.values()],
    }


def edges(graph: DagGraph) -> Iterator[tuple[str, str, bool]]:
    """Yields the edges as (from, to, whether it is on the critical path)."""
    path = set(pairwise(graph.critical_path()))
    for id in graph.tasks:
        for dependency in (*graph.dependencies[id], *graph.outside[id]):
            yield dependency, id, (dependency, id) in path


def words(graph: DagGraph, id: str) -> list[str]:
    """The lines in a task's box."""
    task, took = graph.tasks[id], seconds(graph.duration_sec(id))
    return [clean(label(task)), " ".join(part for part in (task.state, took) if part)]


def dot(graph: DagGraph) -> str:
    """The graph for Graphviz; the critical path is bold."""
    path = set(graph.critical_path())
    lines = ["digraph dag {", "  rankdir=TB;", "  node [shape=box, style=filled];"]
    lines.append(f"  label={quoted([clean(graph.dag.spec.title or graph.dag.id)])};")
    for id, task in graph.tasks.items():
        wide = ", penwidth=3" if id in path else ""
        colour = COLOURS.get(task.state, WAITING)
        lines.append(f'  "{id}" [label={quoted(words(graph, id))}, fillcolor="{colour}"{wide}];')
    for id in dict.fromkeys(id for above in graph.outside.values() for id in above):
        lines.append(f'  {quoted([clean(id)])} [style="dashed"];')
    for start, end, marked in edges(graph):
        lines.append(f'  {quoted([clean(start)])} -> "{end}"{" [penwidth=3]" if marked else ""};')
    return "\n".join([*lines, "}"])


def quoted(lines: list[str]) -> str:
    """A quoted DOT string."""
    marked = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    text = "\\n".join(marked)
    return f'"{text}"'


def mermaid(graph: DagGraph) -> str:
    """The graph for Mermaid; the critical path is thick."""
    outside = dict.fromkeys(id for above in graph.outside.values() for id in above)
    place = {id: f"t{at}" for at, id in enumerate([*graph.tasks, *outside])}
    lines = ["flowchart TD"]
    for id, task in graph.tasks.items():
        text = "<br>".join(map(escaped, words(graph, id)))
        kind = task.state.lower() if task.state in COLOURS else "waiting"
        lines.append(f'  {place[id]}["{text}"]:::{kind}')
    lines += [f'  {place[id]}(["{escaped(clean(id))}"])' for id in outside]
    for start, end, marked in edges(graph):
        lines.append(f"  {place[start]} {'==>' if marked else '-->'} {place[end]}")
    lines += [f"  classDef {state.lower()} fill:{colour}" for state, colour in COLOURS.items()]
    return "\n".join([*lines, f"  classDef waiting fill:{WAITING}"])


def escaped(text: str) -> str:
    """A Mermaid text: characters with a meaning there are written as their code points."""
    return ODD.sub(lambda found: f"#{ord(found[0])};", text)
