"""`rqueue breaker, slowdown, budget`: the gates of the claim, shown and changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, exact, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.budgets.accounts import Budget
    from rqueue.limits.slowdown import Slowdown
    from rqueue.queue import Queue
    from rqueue.task.attempt.breaker import Breaker


def iso(at: datetime | None) -> str:
    """An instant as text."""
    return "" if at is None else at.isoformat(timespec="seconds")


BREAKERS: Columns[Breaker] = {
    "TYPE": lambda row: row.type,
    "STATE": lambda row: row.state,
    "FAILURES": lambda row: str(row.failures),
    "LAST FAILURE": lambda row: iso(row.last_failure),
    "OPENED": lambda row: iso(row.opened_at),
    "HALF-OPEN AT": lambda row: iso(row.half_open_at),
    "PROBE": lambda row: row.probe or "",
}


def breaker_document(row: Breaker) -> dict[str, object]:
    """A breaker as a JSON document."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in asdict(row).items()
    }


@click.group()
def breaker() -> None:
    """Show, open and close circuit breakers, one for each task type.

    A breaker opens after several failed attempts in a row: no task of its type is claimed. After a
    while one task is run as a probe; the breaker closes if the probe succeeds.
    """


@breaker.command("list")
@on_queue
async def list_breakers(queue: Queue, out: Printer) -> None:
    """List the breakers that are open or count failures."""
    found = await queue.limits.breakers()
    out.rows(found, BREAKERS, breaker_document)
    if not found and not out.as_json:
        note("all breakers are closed")


@breaker.command("open")
@click.argument("type")
@click.option(
    "--for", "seconds", type=float, default=300, show_default=True, metavar="SEC", help="Seconds."
)
@on_queue
async def open_breaker(queue: Queue, out: Printer, type: str, *, seconds: float) -> None:
    """Open the breaker of a TYPE for some seconds; then one task is run as a probe."""
    await queue.limits.open_breaker(type, seconds)
    text = f"the breaker of {type} is open for {seconds:g} s"
    out.one({"type": type, "state": "open", "for_sec": seconds}, text)


@breaker.command("close")
@click.argument("type")
@on_queue
async def close_breaker(queue: Queue, out: Printer, type: str) -> None:
    """Close the breaker of a TYPE and reset its failure count."""
    await queue.limits.close_breaker(type)
    out.one({"type": type, "state": "closed"}, f"the breaker of {type} is closed")


SLOWDOWNS: Columns[Slowdown] = {
    "TYPE": lambda row: row.type or "",
    "KEY": lambda row: row.key or "",
    "STATE": lambda row: "resting" if row.resting else "recovering",
    "UNTIL": lambda row: row.until.isoformat(timespec="seconds"),
    "OVER AT": lambda row: row.over_at.isoformat(timespec="seconds"),
}


def slowdown_document(row: Slowdown) -> dict[str, object]:
    """A slow-down as a JSON document."""
    return asdict(row) | {"until": row.until.isoformat(), "over_at": row.over_at.isoformat()}


@click.group()
def slowdown() -> None:
    """Show and lift the slow-downs of types and limit keys.

    After a rate limit, no task of the type or limit key is claimed for a while; then the rate is
    raised step by step.
    """


@slowdown.command("list")
@on_queue
async def list_slowdowns(queue: Queue, out: Printer) -> None:
    """List the types and limit keys that are slowed down."""
    found = await queue.limits.slowdowns()
    out.rows(found, SLOWDOWNS, slowdown_document)
    if not found and not out.as_json:
        note("nothing is slowed down")


@slowdown.command("lift")
@click.argument("type", required=False)
@click.option("--key", metavar="KEY", help="A limit key instead of a type.")
@on_queue
async def lift_slowdown(queue: Queue, out: Printer, *, type: str | None, key: str | None) -> None:
    """Lift the slow-down of a TYPE or of a limit key."""
    if (type is None) == (key is None):
        raise click.UsageError("give a TYPE or --key KEY")
    was = await queue.limits.lift_slowdown(type, key=key)
    what = f"type {type}" if key is None else f"key {key}"
    text = f"{what} is no longer slowed down" if was else f"{what} was not slowed down"
    out.one({"type": type, "key": key, "was_slowed": was}, text)


BUDGETS: Columns[Budget] = {
    "ACCOUNT": lambda row: row.account.replace("=", " "),
    "CEILING": lambda row: exact(row.ceiling_usd),
    "SPENT": lambda row: exact(row.spent_usd),
    "RESERVED": lambda row: exact(row.reserved_usd),
    "REMAINING": lambda row: exact(row.remaining_usd),
    "SHORT": lambda row: "yes" if row.short else "",
}


def budget_document(row: Budget) -> dict[str, object]:
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
async def list_budgets(queue: Queue, out: Printer) -> None:
    """List the accounts of the day and of workers with a budget."""
    found = await queue.budgets.list()
    out.rows(found.accounts, BUDGETS, budget_document)
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
async def set_budget(
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
    text = f"{'each day' if worker is None else f'worker {worker}'} may cost {exact(usd)}"
    out.one(
        budget_document(row) if row else {"account": f"worker={worker}", "ceiling_usd": None}, text
    )
