"""`rqueue dead`: lists dead tasks and clusters; the decisions are commands of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.cli.dead import decide, report, show
from rqueue.cli.dead.decide import dead_filter
from rqueue.cli.main import nothing
from rqueue.cli.options import row_limit
from rqueue.cli.output.tables import Columns, Printer, counted, cut, exact, gist, note, span
from rqueue.cli.session import on_queue
from rqueue.clock import SYSTEM

if TYPE_CHECKING:
    from rqueue.dead.admin import Cluster, Wanted
    from rqueue.queue import Queue
    from rqueue.task.task import Task

ERROR, INPUT, PATTERN = 60, 40, 80


def ago(task: Task) -> str:
    """The time since the task died."""
    from rqueue.dead.admin import died  # noqa: PLC0415 - commands import what they call

    return span((SYSTEM.now() - died(task)).total_seconds())


def agent(task: Task) -> str:
    """The agent of the task, or the worker that failed it last."""
    from rqueue.dead.admin import agent_of  # noqa: PLC0415

    return agent_of(task) or ""


def cluster(task: Task) -> str:
    """The fingerprint of its error."""
    from rqueue.dead.decide import fingerprint_of  # noqa: PLC0415

    return fingerprint_of(task).id


def marks(task: Task) -> str:
    """`poison` for a poison pill, `escalated` for an escalated task."""
    words = ["poison"] if task.poison_pill else []
    return " ".join([*words, "escalated"] if task.reviewed else words)


TASKS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "AGENT": agent,
    "REASON": lambda task: task.failure_reason or "",
    "ERROR": lambda task: gist(task.last_error, ERROR),
    "INPUT": lambda task: cut(json.dumps(task.payload), INPUT),
    "ATTEMPTS": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "COST": lambda task: exact(task.cost_usd) if task.cost_usd else "",
    "DIED": lambda task: f"{ago(task)} ago",
    "CLUSTER": cluster,
    "": marks,
}
CLUSTERS: Columns[Cluster] = {
    "CLUSTER": lambda one: one.fingerprint,
    "TASKS": lambda one: str(one.tasks),
    "TYPE": lambda one: one.type,
    "REASON": lambda one: one.reason,
    "POISON": lambda one: str(one.poison_pills or ""),
    "ESCALATED": lambda one: str(one.escalated or ""),
    "COST": lambda one: exact(one.cost_usd) if one.cost_usd else "",
    "LAST": lambda one: one.last.strftime("%Y-%m-%d %H:%M") if one.last else "",
    "ERROR": lambda one: cut(one.pattern, PATTERN),
}


@click.group()
def dead() -> None:
    """Review dead tasks and decide about them.

    Dead tasks stay until an operator retries, cancels or deletes them. Each decision is recorded
    with its author and its cause.
    """


@dead.command("list")
@dead_filter
@row_limit
@on_queue
async def listed(queue: Queue, out: Printer, *, limit: int, **wanted: Any) -> None:
    """List dead tasks, the most recent first."""
    from rqueue.dead import admin  # noqa: PLC0415

    found = queue._internals.dead.latest(admin.dead_filter(cast("Wanted", wanted)))
    await out.first_rows(found, limit, TASKS, document)


def document(task: Task) -> dict[str, object]:
    """A dead task as a JSON document."""
    from rqueue.dead.admin import agent_of, died, worker_of  # noqa: PLC0415

    return {
        "id": task.id,
        "dag_id": task.dag,
        "task_type": task.type,
        "agent_name": agent_of(task),
        "worker": worker_of(task),
        "reason": task.failure_reason,
        "error": task.last_error,
        "input": task.payload,
        "attempts": task.attempts,
        "life": task.life,
        "total_cost_usd": task.cost_usd,
        "dead_lettered_at": died(task).isoformat(),
        "poison_pill": task.poison_pill,
        "reviewed": task.reviewed,
        "resolution": task.resolution,
        "fingerprint": cluster(task),
    }


@dead.command()
@dead_filter
@on_queue
async def clusters(queue: Queue, out: Printer, **wanted: Any) -> None:
    """List clusters of similar dead tasks, the largest first.

    Tasks of a cluster have the same type, reason and error. Numbers, ids, paths, times and quoted
    texts in the error are ignored.
    """
    with out.working("search"):
        found = await queue.dead.clusters(**wanted)
    out.rows(found, CLUSTERS, cluster_document)
    if out.as_json:
        return
    number = len(found)
    note(f"{counted(sum(one.tasks for one in found))}, {number} cluster{'s' * (number != 1)}")
    if not found:
        raise nothing()


def cluster_document(one: Cluster) -> dict[str, object]:
    """A cluster as a JSON document."""
    return {
        "fingerprint": one.fingerprint,
        "tasks": one.tasks,
        "type": one.type,
        "reason": one.reason,
        "pattern": one.pattern,
        "poison_pills": one.poison_pills,
        "escalated": one.escalated,
        "cost_usd": one.cost_usd,
        "first": one.first.isoformat() if one.first else None,
        "last": one.last.isoformat() if one.last else None,
        "examples": one.examples,
    }


for each in (show.show, *decide.COMMANDS, report.report):
    dead.add_command(each)
