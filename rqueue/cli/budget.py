"""`rqueue budget`: what a day and workers may cost, and have cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.model.budget import Budget
    from rqueue.queue import Queue


def shown(usd: float | None) -> str:
    """A sum for people."""
    return "no limit" if usd is None else f"{usd:,.6f}".rstrip("0").rstrip(".")


COLUMNS: Columns[Budget] = {
    "ACCOUNT": lambda row: row.account.replace("=", " "),
    "CEILING": lambda row: shown(row.ceiling_usd),
    "SPENT": lambda row: shown(row.spent_usd),
    "RESERVED": lambda row: shown(row.reserved_usd),
    "REMAINING": lambda row: shown(row.remaining_usd),
    "SHORT": lambda row: "yes" if row.short else "",
}


def document(row: Budget) -> dict[str, object]:
    """An account for programs."""
    return {
        "account": row.account,
        "ceiling_usd": row.ceiling_usd,
        "spent_usd": row.spent_usd,
        "reserved_usd": row.reserved_usd,
        "remaining_usd": row.remaining_usd,
        "short": row.short,
    }


@click.group()
def budget() -> None:
    """Budgets: what a day of the queue, or a worker, may cost.

    What a task is expected to cost is set aside when it is claimed; what cannot be paid is not
    handed out. That of a DAG is `rqueue dag budget`.
    """


@budget.command("list")
@on_queue
async def listed(queue: Queue, out: Printer) -> None:
    """List the accounts: the day's, and those of workers that have a budget."""
    found = await queue.budgets()
    out.rows(found.accounts, COLUMNS, document)
    if found.unpaid and not out.as_json:
        note(f"{found.unpaid} ready tasks wait because their DAGs cannot pay them")


@budget.command("set")
@click.option("--usd", type=float, metavar="N", help="What it may cost.")
@click.option("--none", "unlimited", is_flag=True, help="It may cost anything.")
@click.option("--worker", metavar="NAME", help="The budget of a worker. [default: of each day]")
@click.option("--afresh", is_flag=True, help="Forget what was spent so far.")
@on_queue
async def limited(
    queue: Queue,
    out: Printer,
    *,
    usd: float | None,
    unlimited: bool,
    worker: str | None,
    afresh: bool,
) -> None:
    """Set what each day, or a worker, may cost."""
    if (usd is None) == (not unlimited):
        raise click.UsageError("give one of --usd and --none")
    await queue.set_budget(usd, worker=worker, afresh=afresh)
    found = await queue.budgets()
    row = found.day if worker is None else found.of_worker(worker)
    text = f"{'each day' if worker is None else f'worker {worker}'} may cost {shown(usd)}"
    out.one(document(row) if row else {"account": f"worker={worker}", "ceiling_usd": None}, text)
