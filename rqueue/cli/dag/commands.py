"""`rqueue dag`: lists, shows, submits and changes DAGs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqueue.cli.dag.export import document, dot, mermaid, whole
from rqueue.cli.dag.picture import head, table, tally
from rqueue.cli.main import STATE, nothing
from rqueue.cli.options import documents, row_limit
from rqueue.cli.output.tables import (
    Columns,
    Printer,
    counted,
    cut,
    dollars,
    note,
    print_columns,
    span,
)
from rqueue.cli.session import INTERVAL, on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import DagFailed, InvalidTask
from rqueue.task.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.dags.admin import Retried
    from rqueue.dags.view import DagGraph
    from rqueue.operations import Progress
    from rqueue.queue import Queue
    from rqueue.task.dag import Dag

TITLE_WIDTH = 40
# Cancelled tasks that are named after a retry.
NAMED = 10
POLL_SEC = 0.5
STATUS = click.Choice([str(status) for status in DagStatus], case_sensitive=False)


@click.group()
def dag() -> None:
    """Submit, show and change DAGs."""


def spent(dag: Dag) -> str:
    """The cost so far, and the budget if there is one."""
    budget = dag.spec.budget_usd
    if budget is None:
        return dollars(dag.spent_usd) if dag.spent_usd else ""
    return f"{dollars(dag.spent_usd)} of {dollars(budget)}"


COLUMNS: Columns[Dag] = {
    "ID": lambda dag: str(dag.id),
    "STATUS": lambda dag: f"{dag.status}{', paused' if dag.paused and not dag.ended else ''}",
    "DONE": lambda dag: f"{dag.total - dag.open}/{dag.total}",
    "DEAD": lambda dag: str(dag.dead),
    "AGE": lambda dag: span((SYSTEM.now() - dag.created_at).total_seconds()),
    "SPENT": spent,
    "TITLE": lambda dag: cut(dag.spec.title or "", TITLE_WIDTH),
}


@dag.command("list")
@click.option(
    "--status", multiple=True, type=STATUS, help="Only DAGs with this status. [repeatable]"
)
@row_limit
@on_queue
async def list_(queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int) -> None:
    """List DAGs of more than one task, the newest first."""
    found = (one async for one in queue.dags.list() if not status or one.status in status)
    await out.first_rows(found, limit, COLUMNS, document)


@dag.command()
@click.argument("dag", metavar="ID")
@click.option("--watch", is_flag=True, help="Redraw until the DAG has ended; q quits.")
@click.option(
    "--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds between redraws."
)
@click.option("--dot", "form", flag_value="dot", help="Print DOT for Graphviz.")
@click.option("--mermaid", "form", flag_value="mermaid", help="Print a Mermaid flowchart.")
@on_queue
async def show(
    queue: Queue, out: Printer, dag: str, *, watch: bool, interval: float, form: str | None
) -> None:
    """Draw a DAG with states, durations and the critical path.

    ID is that of the DAG or of one of its tasks. More than 100 tasks are summarised by layers.
    """
    if bool(form) + (watch or out.as_json) > 1:
        raise click.UsageError("--dot and --mermaid cannot be combined with other output options")
    if form is not None:
        graph = await queue.dags.show(dag)
        click.echo(dot(graph) if form == "dot" else mermaid(graph))
    elif watch:
        await watched(queue, out, dag, interval)
    else:
        print_graph(out, await queue.dags.show(dag))


async def watched(queue: Queue, out: Printer, dag: str, interval: float) -> None:
    """Shows a DAG until it has ended, then its final graph."""
    # Imported here: rich takes a tenth of a second.
    from rqueue.cli.dag.watch import live, print_changes  # noqa: PLC0415

    if out.as_json or not sys.stdout.isatty():
        found = await print_changes(queue, out, dag, interval)
    else:
        found = await live(queue, dag, interval)
    if found is not None and not out.as_json:
        print_graph(out, found)


def print_graph(out: Printer, graph: DagGraph) -> None:
    """Prints a DAG: as JSON, as a picture in a terminal, or as plain columns in a pipe."""
    if out.as_json:
        out.json(whole(graph))
        return
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        from rqueue.cli.dag.watch import shown  # noqa: PLC0415

        console = Console()
        console.print(shown(graph, console.width))
    else:
        click.echo("\n".join(head(graph)))
        click.echo()
        plain = table(graph)
        print_columns(plain.titles, plain.rows)
    advise(graph.dag)


def advise(dag: Dag) -> None:
    """Notes which command lets a blocked DAG continue."""
    if dag.dead:
        what = "1 task is" if dag.dead == 1 else f"{dag.dead} tasks are"
        note(f"{what} dead; retry with `rqueue dag retry {dag.id}`")
    if dag.paused and not dag.ended:
        note(f"the DAG is paused; resume it with `rqueue dag resume {dag.id}`")


@dag.command()
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option("--wait", is_flag=True, help="Wait until the DAG has ended.")
@on_queue
async def submit(queue: Queue, out: Printer, file: BinaryIO, *, wait: bool) -> None:
    """Submit a DAG from a plan and print its id.

    The plan is YAML or JSON; `-` reads it from standard input. The submission is atomic.
    With --wait, exit 3 if the DAG does not complete.
    """
    submitted = await queue.dags.submit(plan_in(file.read()))
    id = submitted.id
    if not wait:
        out.one({"id": id}, str(id))
        return
    if not out.as_json:
        click.echo(str(id))
    with out.measured("dag") as progress:
        found = await ended(queue, id, progress)
    if out.as_json:
        out.json(document(found))
    elif found.status is DagStatus.COMPLETED:
        note(f"{found.status}: {tally(found)}")
    if found.status is not DagStatus.COMPLETED:
        what = f"see `rqueue dag show {id}`"
        raise DagFailed(id, status=found.status, reason=f"{found.reason or tally(found)}; {what}")


def plan_in(data: bytes) -> Mapping[str, Any]:
    """The plan in a file. Raises InvalidTask unless there is exactly one."""
    found = documents(data)
    if not found:
        raise InvalidTask("dag", "is missing: the file is empty")
    if len(found) > 1:
        rule = f"is one mapping with `tasks`; the file has {len(found)} documents"
        raise InvalidTask("dag", rule)
    return found[0]


async def ended(queue: Queue, dag: str, progress: Progress | None) -> Dag:
    """Waits until a DAG is at rest and returns it. `progress` gets the number of ended tasks."""
    while True:
        found = await queue.dags.status(dag)
        if progress is not None:
            progress(found.total - found.open, found.total)
        if found.ended:
            return found
        # A failed DAG may still have tasks that run; only its tasks show whether it is at rest.
        if found.status is DagStatus.FAILED and (await queue.dags.show(dag)).at_rest:
            return found
        await asyncio.sleep(POLL_SEC)


@dag.command()
@click.argument("dag", metavar="ID")
@click.option("--reason", default="", help="The reason, stored with each task.")
@on_queue
async def cancel(queue: Queue, out: Printer, dag: str, *, reason: str) -> None:
    """Cancel all tasks of a DAG that have not ended."""
    id = await queue.dags.id_of(dag)
    with out.working("cancel"):
        number = await queue.dags.cancel(id, reason)
    out.one({"id": id, "cancelled": number}, f"{id} is cancelled: {counted(number)}")


@dag.command()
@click.argument("dag", metavar="ID")
@on_queue
async def retry(queue: Queue, out: Printer, dag: str) -> None:
    """Retry all dead tasks of a DAG.

    Cancelled tasks stay cancelled. Exit 1 if no task is dead, 3 if one could not be retried.
    """
    with out.measured("retry") as progress:
        found = await queue.dags.retry(dag, progress=progress)
    out.one(
        {
            "id": found.dag,
            "retried": found.retried,
            "refused": found.refused,
            "cancelled": found.cancelled,
        },
        f"{found.dag}: {counted(len(found.retried))} retried",
    )
    if not out.as_json:
        note_kept(found)
    if found.refused:
        raise click.exceptions.Exit(STATE)
    if not found.retried:
        note(f"{found.dag} has no dead tasks")
        raise nothing()


def note_kept(found: Retried) -> None:
    """Notes which tasks of a DAG stay dead or cancelled."""
    for task, why in found.refused.items():
        note(f"{task} stays dead: {why}")
    if found.cancelled:
        stay = "stays" if len(found.cancelled) == 1 else "stay"
        note(f"{counted(len(found.cancelled))} {stay} cancelled; submit again those that you need:")
    for task in found.cancelled[:NAMED]:
        note(f"  {task}")
    if len(found.cancelled) > NAMED:
        note(f"  and {len(found.cancelled) - NAMED} more, see `rqueue dag show {found.dag}`")


@dag.command()
@click.argument("dag", metavar="ID")
@on_queue
async def pause(queue: Queue, out: Printer, dag: str) -> None:
    """Pause a DAG.

    Its tasks are no longer claimed; running tasks continue.
    """
    id = await queue.dags.id_of(dag)
    await queue.dags.pause(id)
    out.one({"id": id, "paused": True}, f"{id} is paused")


@dag.command()
@click.argument("dag", metavar="ID")
@on_queue
async def resume(queue: Queue, out: Printer, dag: str) -> None:
    """Resume a DAG."""
    id = await queue.dags.id_of(dag)
    await queue.dags.resume(id)
    out.one({"id": id, "paused": False}, f"{id} is resumed")


@dag.command()
@click.argument("dag", metavar="ID")
@click.option("--usd", type=float, metavar="N", help="The budget of all its tasks in dollars.")
@click.option("--none", "unlimited", is_flag=True, help="No limit.")
@on_queue
async def budget(
    queue: Queue, out: Printer, dag: str, *, usd: float | None, unlimited: bool
) -> None:
    """Show or set the budget of a DAG."""
    if usd is not None and unlimited:
        raise click.UsageError("give either --usd or --none")
    if usd is not None or unlimited:
        await queue.dags.set_budget(dag, usd)
    found = await queue.dags.status(dag)
    limit = found.spec.budget_usd
    most = "no limit" if limit is None else f"{dollars(limit)} at most"
    out.one(
        {"id": found.id, "budget_usd": limit, "spent_usd": found.spent_usd},
        f"{found.id}: {most}, {dollars(found.spent_usd)} spent",
    )
