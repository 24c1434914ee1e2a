"""`rqueue dead`: the dead tasks of a queue, what they have in common, and the way to decide."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.cli import dead_report, dead_resolving, dead_show
from rqueue.cli.budget import shown
from rqueue.cli.dead_resolving import filtering
from rqueue.cli.exits import nothing
from rqueue.cli.output import Columns, Printer, cut, gist, note, span
from rqueue.cli.session import on_queue
from rqueue.cli.sweeping import counted
from rqueue.client.deciding import fingerprint_of
from rqueue.client.reviewing import agent_of, died, worker_of
from rqueue.clock import SYSTEM
from rqueue.reviewing import dead_filter

if TYPE_CHECKING:
    from rqueue.client.reviewing import Cluster
    from rqueue.model.task import Task
    from rqueue.queue import Queue
    from rqueue.reviewing import Wanted

LIMIT = 100
ERROR, INPUT, PATTERN = 60, 40, 80


def ago(task: Task) -> str:
    """How long ago it died."""
    return span((SYSTEM.now() - died(task)).total_seconds())


def marks(task: Task) -> str:
    """What is special about a dead task."""
    words = ["poison"] if task.poison_pill else []
    return " ".join([*words, "escalated"] if task.reviewed else words)


TASKS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "AGENT": lambda task: agent_of(task) or "",
    "REASON": lambda task: task.failure_reason or "",
    "ERROR": lambda task: gist(task.last_error, ERROR),
    "INPUT": lambda task: cut(json.dumps(task.payload), INPUT),
    "ATTEMPTS": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "COST": lambda task: shown(task.cost_usd) if task.cost_usd else "",
    "DIED": lambda task: f"{ago(task)} ago",
    "CLUSTER": lambda task: fingerprint_of(task).id,
    "": marks,
}
CLUSTERS: Columns[Cluster] = {
    "CLUSTER": lambda one: one.fingerprint,
    "TASKS": lambda one: str(one.tasks),
    "TYPE": lambda one: one.type,
    "REASON": lambda one: one.reason,
    "POISON": lambda one: str(one.poison_pills or ""),
    "ESCALATED": lambda one: str(one.escalated or ""),
    "COST": lambda one: shown(one.cost_usd) if one.cost_usd else "",
    "LAST": lambda one: one.last.strftime("%Y-%m-%d %H:%M") if one.last else "",
    "ERROR": lambda one: cut(one.pattern, PATTERN),
}


@click.group()
def dead() -> None:
    """Dead tasks: see why they died, and decide.

    They stay until somebody retries, cancels or deletes them; each decision is kept with who made
    it and why.
    """


@dead.command("list")
@filtering
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def listed(queue: Queue, out: Printer, *, limit: int, **wanted: Any) -> None:
    """List dead tasks, the last that died first."""
    found: list[Task] = []
    more = False
    async for task in queue.review_desk.latest(dead_filter(cast("Wanted", wanted))):
        if len(found) == limit:
            more = True
            break
        found.append(task)
    out.rows(found, TASKS, document)
    if more:
        note(f"there are more than {limit}: narrow the filter, or raise --limit")


def document(task: Task) -> dict[str, object]:
    """A dead task for programs."""
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
        "fingerprint": fingerprint_of(task).id,
    }


@dead.command()
@filtering
@on_queue
async def clusters(queue: Queue, out: Printer, **wanted: Any) -> None:
    """Show what dead tasks have in common, the largest cluster first.

    Alike are those of one type that died for one reason with one error, whatever numbers, ids,
    paths, times and quoted texts stand in it.
    """
    with out.working("look"):
        found = await queue.dead_clusters(**wanted)
    out.rows(found, CLUSTERS, cluster_document)
    if out.as_json:
        return
    number = len(found)
    note(f"{counted(sum(one.tasks for one in found))}, {number} cluster{'s' * (number != 1)}")
    if not found:
        raise nothing()


def cluster_document(one: Cluster) -> dict[str, object]:
    """A cluster for programs."""
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


for each in (dead_show.show, *dead_resolving.COMMANDS, dead_report.report):
    dead.add_command(each)
