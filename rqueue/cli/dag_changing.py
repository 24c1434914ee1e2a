"""`rqueue dag cancel, retry, pause, resume, budget`: what an operator does to one DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.dag_picture import dollars
from rqueue.cli.exits import STATE, nothing
from rqueue.cli.output import Printer, note
from rqueue.cli.session import on_queue
from rqueue.cli.sweeping import counted

if TYPE_CHECKING:
    from rqueue.client.dagdesk import Retried
    from rqueue.queue import Queue

SHOWN = 10


@click.command()
@click.argument("dag", metavar="ID")
@click.option("--reason", default="", help="Why; it is kept with each task.")
@on_queue
async def cancel(queue: Queue, out: Printer, dag: str, *, reason: str) -> None:
    """Give up all of a DAG that has not ended."""
    id = await queue.dag_desk.id_of(dag)
    with out.working("cancel"):
        number = await queue.cancel_dag(id, reason)
    out.one({"id": id, "cancelled": number}, f"{id} is cancelled: {counted(number)}")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def retry(queue: Queue, out: Printer, dag: str) -> None:
    """Give every dead task of a DAG a new life.

    What was cancelled stays so. Exit 1 when none was dead, 3 when one could not be revived.
    """
    with out.measured("retry") as heard:
        found = await queue.dag_desk.retry(dag, told=heard)
    out.one(
        {
            "id": found.dag,
            "revived": found.revived,
            "refused": found.refused,
            "cancelled": found.cancelled,
        },
        f"{found.dag}: {counted(len(found.revived))} revived",
    )
    if not out.as_json:
        explain(found)
    if found.refused:
        raise click.exceptions.Exit(STATE)
    if not found.revived:
        note(f"{found.dag} has no dead tasks")
        raise nothing()


def explain(found: Retried) -> None:
    """Says which tasks of a DAG a retry could not help."""
    for task, why in found.refused.items():
        note(f"{task} stays dead: {why}")
    if found.cancelled:
        stay = "stays" if len(found.cancelled) == 1 else "stay"
        note(f"{counted(len(found.cancelled))} {stay} cancelled; submit anew what you need of it:")
    for task in found.cancelled[:SHOWN]:
        note(f"  {task}")
    if len(found.cancelled) > SHOWN:
        note(f"  and {len(found.cancelled) - SHOWN} more, see `rqueue dag show {found.dag}`")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def pause(queue: Queue, out: Printer, dag: str) -> None:
    """Hand out nothing more of a DAG.

    What runs goes on.
    """
    id = await queue.dag_desk.id_of(dag)
    await queue.pause_dag(id)
    out.one({"id": id, "paused": True}, f"{id} is paused")


@click.command()
@click.argument("dag", metavar="ID")
@on_queue
async def resume(queue: Queue, out: Printer, dag: str) -> None:
    """End a DAG's pause."""
    id = await queue.dag_desk.id_of(dag)
    await queue.resume_dag(id)
    out.one({"id": id, "paused": False}, f"{id} is resumed")


@click.command()
@click.argument("dag", metavar="ID")
@click.option("--usd", type=float, metavar="N", help="What its tasks together may cost.")
@click.option("--none", "unlimited", is_flag=True, help="They may cost anything.")
@on_queue
async def budget(
    queue: Queue, out: Printer, dag: str, *, usd: float | None, unlimited: bool
) -> None:
    """Show or set what a DAG may cost."""
    if usd is not None and unlimited:
        raise click.UsageError("give --usd or --none, one of them")
    if usd is not None or unlimited:
        await queue.dag_budget(dag, usd)
    found = await queue.dag_desk.get(dag)
    limit = found.spec.budget_usd
    most = "no limit" if limit is None else f"{dollars(limit)} at most"
    out.one(
        {"id": found.id, "budget_usd": limit, "spent_usd": found.spent_usd},
        f"{found.id}: {most}, {dollars(found.spent_usd)} spent",
    )


COMMANDS = (cancel, retry, pause, resume, budget)
