"""`rqueue dag cancel, retry, pause, resume, budget`: changes to one DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.bulk import counted
from rqueue.cli.dag.picture import dollars
from rqueue.cli.main import STATE, nothing
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.dags.admin import Retried
    from rqueue.queue import Queue

SHOWN = 10


@click.command()
@click.argument("dag", metavar="ID")
@click.option("--reason", default="", help="The reason, stored with each task.")
@on_queue
async def cancel(queue: Queue, out: Printer, dag: str, *, reason: str) -> None:
    """Cancel all tasks of a DAG that have not ended."""
    id = await queue.dags.id_of(dag)
    with out.working("cancel"):
        number = await queue.dags.cancel(id, reason)
    out.one({"id": id, "cancelled": number}, f"{id} is cancelled: {counted(number)}")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def retry(queue: Queue, out: Printer, dag: str) -> None:
    """Retry all dead tasks of a DAG.

    Cancelled tasks stay cancelled. Exit 1 if no task is dead, 3 if one could not be retried.
    """
    with out.measured("retry") as heard:
        found = await queue.dags.retry(dag, progress=heard)
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
        explain(found)
    if found.refused:
        raise click.exceptions.Exit(STATE)
    if not found.retried:
        note(f"{found.dag} has no dead tasks")
        raise nothing()


def explain(found: Retried) -> None:
    """Notes which tasks of a DAG stay dead or cancelled."""
    for task, why in found.refused.items():
        note(f"{task} stays dead: {why}")
    if found.cancelled:
        stay = "stays" if len(found.cancelled) == 1 else "stay"
        note(f"{counted(len(found.cancelled))} {stay} cancelled; submit again those that you need:")
    for task in found.cancelled[:SHOWN]:
        note(f"  {task}")
    if len(found.cancelled) > SHOWN:
        note(f"  and {len(found.cancelled) - SHOWN} more, see `rqueue dag show {found.dag}`")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def pause(queue: Queue, out: Printer, dag: str) -> None:
    """Pause a DAG.

    Its tasks are no longer claimed; running tasks continue.
    """
    id = await queue.dags.id_of(dag)
    await queue.dags.pause(id)
    out.one({"id": id, "paused": True}, f"{id} is paused")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def resume(queue: Queue, out: Printer, dag: str) -> None:
    """Resume a DAG."""
    id = await queue.dags.id_of(dag)
    await queue.dags.resume(id)
    out.one({"id": id, "paused": False}, f"{id} is resumed")


@click.command()
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


COMMANDS = (cancel, retry, pause, resume, budget)
