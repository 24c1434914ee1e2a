"""`rqueue budget`: the accounts of the day and of workers, shown and set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.budgets.accounts import Budget
    from rqueue.queue import Queue


def shown(usd: float | None) -> str:
    """An amount as text."""
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
    """An account as a JSON document."""
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
    """Show and set the budget of each day and of workers.

    The estimated cost of a task is reserved when it is claimed. A task that exceeds the remaining
    budget is not claimed. For the budget of a DAG, see `rqueue dag budget`.
    """


@budget.command("list")
@on_queue
async def listed(queue: Queue, out: Printer) -> None:
    """List the accounts of the day and of workers with a budget."""
    found = await queue.budgets.list()
    out.rows(found.accounts, COLUMNS, document)
    if found.unpaid and not out.as_json:
        note(f"{found.unpaid} ready tasks wait because they exceed the budgets of their DAGs")


@budget.command("set")
@click.option("--usd", type=float, metavar="N", help="The budget in dollars.")
@click.option("--none", "unlimited", is_flag=True, help="No limit.")
@click.option(
    "--worker", metavar="NAME", help="Set the budget of this worker. [default: of each day]"
)
@click.option("--afresh", is_flag=True, help="Reset the amount spent.")
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
    """Set the budget of each day or of a worker."""
    if (usd is None) == (not unlimited):
        raise click.UsageError("give either --usd or --none")
    await queue.budgets.set(usd, worker=worker, afresh=afresh)
    found = await queue.budgets.list()
    row = found.day if worker is None else found.of_worker(worker)
    text = f"{'each day' if worker is None else f'worker {worker}'} may cost {shown(usd)}"
    out.one(document(row) if row else {"account": f"worker={worker}", "ceiling_usd": None}, text)
