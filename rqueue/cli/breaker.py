"""`rqueue breaker`: types that are at rest because they failed, and rests by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.breaker import Breaker
    from rqueue.queue import Queue


def shown(at: datetime | None) -> str:
    """An instant for people."""
    return "" if at is None else at.isoformat(timespec="seconds")


COLUMNS: Columns[Breaker] = {
    "TYPE": lambda row: row.type,
    "STATE": lambda row: row.state,
    "FAILURES": lambda row: str(row.failures),
    "LAST FAILURE": lambda row: shown(row.last_failure),
    "OPENED": lambda row: shown(row.opened_at),
    "TRIED FROM": lambda row: shown(row.half_open_at),
    "PROBE": lambda row: row.probe or "",
}


def document(row: Breaker) -> dict[str, object]:
    """A breaker for programs."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in asdict(row).items()
    }


@click.group()
def breaker() -> None:
    """Circuit breakers: one for each type of task.

    After so many failed attempts in a row nothing of a type is handed out; then one task tries
    whether it works again.
    """


@breaker.command("list")
@on_queue
async def listed(queue: Queue, out: Printer) -> None:
    """List the breakers that are not closed, and those that count failures."""
    found = await queue.breakers()
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note("all breakers are closed")


@breaker.command("open")
@click.argument("type")
@click.option("--for", "seconds", type=float, default=300, show_default=True, metavar="SEC")
@on_queue
async def opened(queue: Queue, out: Printer, type: str, *, seconds: float) -> None:
    """Hand out nothing of a TYPE for a while; then one task tries it."""
    await queue.open_breaker(type, seconds)
    text = f"nothing of {type} is handed out for {seconds:g} s"
    out.one({"type": type, "state": "open", "for_sec": seconds}, text)


@breaker.command("close")
@click.argument("type")
@on_queue
async def closed(queue: Queue, out: Printer, type: str) -> None:
    """Hand out the tasks of a TYPE again, and forget its failures."""
    await queue.close_breaker(type)
    out.one({"type": type, "state": "closed"}, f"the breaker of {type} is closed")
