"""`rqueue breaker`: circuit breakers listed, opened and closed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.queue import Queue
    from rqueue.task.attempt.breaker import Breaker


def shown(at: datetime | None) -> str:
    """An instant as text."""
    return "" if at is None else at.isoformat(timespec="seconds")


COLUMNS: Columns[Breaker] = {
    "TYPE": lambda row: row.type,
    "STATE": lambda row: row.state,
    "FAILURES": lambda row: str(row.failures),
    "LAST FAILURE": lambda row: shown(row.last_failure),
    "OPENED": lambda row: shown(row.opened_at),
    "HALF-OPEN AT": lambda row: shown(row.half_open_at),
    "PROBE": lambda row: row.probe or "",
}


def document(row: Breaker) -> dict[str, object]:
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
async def listed(queue: Queue, out: Printer) -> None:
    """List the breakers that are open or count failures."""
    found = await queue.limits.breakers()
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note("all breakers are closed")


@breaker.command("open")
@click.argument("type")
@click.option(
    "--for", "seconds", type=float, default=300, show_default=True, metavar="SEC", help="Seconds."
)
@on_queue
async def opened(queue: Queue, out: Printer, type: str, *, seconds: float) -> None:
    """Open the breaker of a TYPE for some seconds; then one task is run as a probe."""
    await queue.limits.open_breaker(type, seconds)
    text = f"the breaker of {type} is open for {seconds:g} s"
    out.one({"type": type, "state": "open", "for_sec": seconds}, text)


@breaker.command("close")
@click.argument("type")
@on_queue
async def closed(queue: Queue, out: Printer, type: str) -> None:
    """Close the breaker of a TYPE and reset its failure count."""
    await queue.limits.close_breaker(type)
    out.one({"type": type, "state": "closed"}, f"the breaker of {type} is closed")
