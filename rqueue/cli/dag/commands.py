"""`rqueue dag`, its group and the commands `list` and `show`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rqueue.cli.dag import change, submit
from rqueue.cli.dag.export import document, dot, mermaid, whole
from rqueue.cli.dag.picture import dollars, head, table
from rqueue.cli.output.tables import Columns, Printer, cut, note, print_columns, span
from rqueue.cli.session import on_queue
from rqueue.cli.top.commands import INTERVAL
from rqueue.clock import SYSTEM
from rqueue.task.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.dags.view import DagGraph
    from rqueue.queue import Queue
    from rqueue.task.dag import Dag

LIMIT = 100
TITLE_WIDTH = 40
STATUS = click.Choice([str(status) for status in DagStatus], case_sensitive=False)


@click.group()
def dag() -> None:
    """Submit, show and change DAGs."""


for command in (*change.COMMANDS, submit.submit):
    dag.add_command(command)


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
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    show_default=True,
    help="Maximum number of rows.",
)
@on_queue
async def list_(queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int) -> None:
    """List DAGs of more than one task, the newest first."""
    found: list[Dag] = []
    more = False
    async for one in queue.dags.list():
        if status and one.status not in status:
            continue
        if len(found) == limit:
            more = True
            break
        found.append(one)
    out.rows(found, COLUMNS, document)
    if more:
        note(f"there are more than {limit}: give a --status or raise --limit")


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
    from rqueue.cli.dag import screen, watch  # noqa: PLC0415

    if out.as_json or not sys.stdout.isatty():
        found = await watch.told(queue, out, dag, interval)
    else:
        found = await screen.live(queue, dag, interval)
    if found is not None and not out.as_json:
        print_graph(out, found)


def print_graph(out: Printer, graph: DagGraph) -> None:
    """Prints a DAG: as JSON, as a picture in a terminal, or as plain columns in a pipe."""
    if out.as_json:
        out.json(whole(graph))
        return
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        from rqueue.cli.dag.screen import shown  # noqa: PLC0415

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
