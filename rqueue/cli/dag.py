"""`rqueue dag`: what DAGs there are, and one of them as a graph."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rqueue.cli import dag_changing, dag_submit
from rqueue.cli.dag_export import document, dot, mermaid, whole
from rqueue.cli.dag_picture import dollars, head, table
from rqueue.cli.output import Columns, Printer, cut, note, print_columns, span
from rqueue.cli.session import on_queue
from rqueue.cli.top import INTERVAL
from rqueue.clock import SYSTEM
from rqueue.model.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.client.daggraph import DagGraph
    from rqueue.model.dag import Dag
    from rqueue.queue import Queue

LIMIT = 100
TITLE_WIDTH = 40
STATUS = click.Choice([str(status) for status in DagStatus], case_sensitive=False)


@click.group()
def dag() -> None:
    """Look at DAGs and change them."""


for command in (*dag_changing.COMMANDS, dag_submit.submit):
    dag.add_command(command)


def spent(dag: Dag) -> str:
    """What it has cost, and may."""
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
@click.option("--status", multiple=True, type=STATUS, help="With this status. [repeatable]")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def list_(queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int) -> None:
    """List DAGs of more than one task, the newest first."""
    found: list[Dag] = []
    more = False
    async for one in queue.dag_desk.walk():
        if status and one.status not in status:
            continue
        if len(found) == limit:
            more = True
            break
        found.append(one)
    out.rows(found, COLUMNS, document)
    if more:
        note(f"there are more than {limit}: name a --status, or raise --limit")


@dag.command()
@click.argument("dag", metavar="ID")
@click.option("--watch", is_flag=True, help="Go on until it has ended; q leaves.")
@click.option("--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds.")
@click.option("--dot", "form", flag_value="dot", help="For Graphviz.")
@click.option("--mermaid", "form", flag_value="mermaid", help="For Mermaid.")
@on_queue
async def show(
    queue: Queue, out: Printer, dag: str, *, watch: bool, interval: float, form: str | None
) -> None:
    """Draw a DAG with states, durations and the critical path.

    A DAG is named by its id or by a task of it. More than 100 tasks are summarised by layers.
    """
    if bool(form) + (watch or out.as_json) > 1:
        raise click.UsageError("--dot and --mermaid stand alone")
    if form is not None:
        graph = await queue.dag_desk.graph(dag)
        click.echo(dot(graph) if form == "dot" else mermaid(graph))
    elif watch:
        await watched(queue, out, dag, interval)
    else:
        print_graph(out, await queue.dag_desk.graph(dag))


async def watched(queue: Queue, out: Printer, dag: str, interval: float) -> None:
    """Shows a DAG until it has ended, and what it is then."""
    # Read here: rich takes a tenth of a second.
    from rqueue.cli import dag_screen, dag_watch  # noqa: PLC0415

    if out.as_json or not sys.stdout.isatty():
        found = await dag_watch.told(queue, out, dag, interval)
    else:
        found = await dag_screen.live(queue, dag, interval)
    if found is not None and not out.as_json:
        print_graph(out, found)


def print_graph(out: Printer, graph: DagGraph) -> None:
    """A DAG as it is asked for: JSON, a picture for a terminal, plain columns for a pipe."""
    if out.as_json:
        out.json(whole(graph))
        return
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        from rqueue.cli.dag_screen import shown  # noqa: PLC0415

        console = Console()
        console.print(shown(graph, console.width))
    else:
        click.echo("\n".join(head(graph)))
        click.echo()
        plain = table(graph)
        print_columns(plain.titles, plain.rows)
    advise(graph.dag)


def advise(dag: Dag) -> None:
    """Says what can be done about a DAG that does not go on."""
    if dag.dead:
        what = "1 task is" if dag.dead == 1 else f"{dag.dead} tasks are"
        note(f"{what} dead; `rqueue dag retry {dag.id}` gives a new life")
    if dag.paused and not dag.ended:
        note(f"it is paused; `rqueue dag resume {dag.id}` hands it out again")
