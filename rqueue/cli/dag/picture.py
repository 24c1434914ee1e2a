"""The text of `rqueue dag show`: facts of a DAG and its graph; a large graph is summarised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rqueue.cli.dag.rails import MARKED, drawn
from rqueue.cli.output.panels import Panel, Row
from rqueue.cli.output.tables import clean, cut, dollars, span
from rqueue.task.attempt.error_text import headline
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.dags.view import DagGraph
    from rqueue.task.dag import Dag
    from rqueue.task.task import Task

# More tasks than this are summarised.
READABLE = 100
NAME_WIDTH, NOTE_WIDTH, NAMED = 32, 60, 4
BAR_WIDTH, DONE, LEFT = 30, "█", "░"
# Maximum width of the rails without a terminal.
WIDEST = 120


def label(task: Task) -> str:
    """The name of a task, else its title, else its type."""
    return task.spec.name or task.spec.title or task.type


def seconds(length: float | None) -> str:
    """A duration as text; below a second in milliseconds."""
    if length is None:
        return ""
    return f"{length * 1000:.0f}ms" if length < 1 else span(length)


def progress(dag: Dag) -> str:
    """The progress of a DAG as a bar with its status and counts."""
    share = (dag.total - dag.open) / dag.total if dag.total else 0.0
    full = int(share * BAR_WIDTH)
    return f"{DONE * full}{LEFT * (BAR_WIDTH - full)} {share:4.0%}  {dag.status}  {tally(dag)}"


def tally(dag: Dag) -> str:
    """The number of tasks by outcome."""
    kinds = {
        "completed": dag.completed,
        "dead": dag.dead,
        "cancelled": dag.cancelled,
        "open": dag.open,
    }
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)


def head(graph: DagGraph) -> list[str]:
    """The facts of a DAG, one on each line."""
    dag, path = graph.dag, graph.critical_path()
    weights, spec = graph.weights(), dag.spec
    length = f", {seconds(sum(weights[id] for id in path))}" if graph.timed else ""
    budget = "" if spec.budget_usd is None else f" of {dollars(spec.budget_usd)}"
    facts = {
        "dag": str(dag.id),
        "title": spec.title,
        "status": status(dag),
        "tasks": f"{dag.total}: {tally(dag)}; {dag.edges} edge{'s' * (dag.edges != 1)}",
        "policy": policy(dag),
        "spent": f"{dollars(dag.spent_usd)}{budget}" if dag.spent_usd or budget else None,
        "next": following(dag),
        "waits": elsewhere(graph.waited_for),
        "roots": names(graph, graph.roots),
        "leaves": names(graph, graph.leaves),
        "critical": f"{MARKED} {len(path)} of its tasks{length}",
    }
    return [f"{name:8} {clean(value)}" for name, value in facts.items() if value]


def status(dag: Dag) -> str:
    """The status of a DAG and its reason."""
    marks = {"paused": dag.paused and not dag.ended, "closing": dag.closing and dag.open}
    shown = ", ".join([dag.status, *(word for word, there in marks.items() if there)])
    return f"{shown}: {dag.reason}" if dag.reason else shown


def following(dag: Dag) -> str | None:
    """The DAG that follows on completion, or why it was refused."""
    if dag.next is None:
        return None
    if dag.next_refused is not None:
        return f"{dag.next}, which was refused: {dag.next_refused}"
    return f"{dag.next}, when it has completed"


def policy(dag: Dag) -> str:
    """The failure policy of a DAG, its threshold, and whether it is reached."""
    threshold = dag.spec.failure_threshold
    if threshold is None:
        return dag.spec.on_failure
    most = f"{threshold:.0%}" if threshold < 1 else f"{threshold:g}"
    reached = ", which is reached" if dag.escalated else ""
    return f"{dag.spec.on_failure}; threshold {most} dead{reached}"


def elsewhere(ids: Sequence[str]) -> str | None:
    """The first few tasks of other DAGs that a DAG waits for."""
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"for {', '.join(ids[:NAMED])}{more} of another DAG" if ids else None


def names(graph: DagGraph, ids: Sequence[str]) -> str:
    """The names of the first few tasks."""
    shown = ", ".join(cut(label(graph.tasks[id]), NAME_WIDTH) for id in ids[:NAMED])
    more = len(ids) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def table(graph: DagGraph, width: int | None = None) -> Panel:
    """The graph with a line for each task. If its rails would take more than half of the width,
    tasks are numbered instead. A large graph is summarised by layers.
    """
    if len(graph.tasks) > READABLE:
        return summary(graph)
    path = set(graph.critical_path())
    lines = drawn(graph.dependencies, path)
    rails = max((len(line) for _, line in lines), default=0)
    if rails <= (WIDEST if width is None else width // 2):
        titles: Row = ("GRAPH", "TASK", "STATE", "TIME", "ID", "")
        rows = [(line, *columns(graph, id)) for id, line in lines]
    else:
        titles = ("NUMBER", "AFTER", "TASK", "STATE", "TIME", "ID", "")
        place = {id: str(at) for at, (id, _) in enumerate(lines, 1)}
        rows = [
            (
                f"{place[id]}{f' {MARKED}' if id in path else ''}",
                cut(
                    ", ".join(place[dependency] for dependency in graph.dependencies[id]),
                    NAME_WIDTH,
                ),
                *columns(graph, id),
            )
            for id, _ in lines
        ]
    return Panel(titles, tuple(tuple(map(clean, row)) for row in rows), len(rows))


def columns(graph: DagGraph, id: str) -> Row:
    """The cells of one task."""
    task = graph.tasks[id]
    took = seconds(graph.duration_sec(id))
    return (cut(label(task), NAME_WIDTH), task.state, took, id, cut(remark(graph, id), NOTE_WIDTH))


def remark(graph: DagGraph, id: str) -> str:
    """Why a task is in its state, if the graph does not show it."""
    task, waits = graph.tasks[id], set(graph.dependencies[id])
    if task.state is State.DEAD_LETTERED:
        return f"{task.failure_reason or ''}: {headline(task.last_error or '')}"
    if task.state is State.CANCELLED:
        return task.cancel_reason or ""
    trigger = task.spec.trigger
    others = [dependency for dependency in task.blocked_by if dependency not in waits]
    elsewhere = [dependency for dependency in others if dependency not in graph.tasks]
    spawned = len(others) - len(elsewhere)
    parts = [
        f"on {trigger}" if trigger != "all_success" else "",
        f"waits for {spawned} it spawned" if spawned else "",
        f"waits for {', '.join(elsewhere)} of another DAG" if elsewhere else "",
    ]
    return "; ".join(part for part in parts if part)


def summary(graph: DagGraph) -> Panel:
    """A large DAG by layers: the number of tasks in each, their states and their types. Consecutive
    layers are merged if there are many.
    """
    path, layers, found = set(graph.critical_path()), graph.layers(), dict[int, list[str]]()
    number = 1 + max(layers.values(), default=0)
    together = -(-number // READABLE)
    for id, layer in layers.items():
        found.setdefault(layer // together, []).append(id)
    rows = []
    for at, ids in sorted(found.items()):
        tasks = [graph.tasks[id] for id in ids]
        took = max((graph.duration_sec(id) or 0.0 for id in ids), default=0.0)
        longest = next((label(graph.tasks[id]) for id in ids if id in path), "")
        rows.append(
            (
                spanned(at * together + 1, min(number, (at + 1) * together)),
                str(len(ids)),
                counted(task.state for task in tasks),
                seconds(took) if took else "",
                cut(longest, NAME_WIDTH),
                cut(counted(task.type for task in tasks), NOTE_WIDTH),
            )
        )
    titles = ("LAYER", "TASKS", "STATES", "LONGEST", MARKED, "TYPES")
    return Panel(titles, tuple(tuple(map(clean, row)) for row in rows), len(rows))


def spanned(first: int, last: int) -> str:
    """The numbers of merged layers, as text."""
    return str(first) if first == last else f"{first}-{last}"


def counted(words: Iterable[str]) -> str:
    """The number of each word, the most frequent first."""
    return ", ".join(f"{number} {word}" for word, number in Counter(words).most_common())
