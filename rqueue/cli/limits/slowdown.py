"""`rqueue slowdown`: slow-downs after rate limits, listed and lifted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.limits.slowdown import Slowdown
    from rqueue.queue import Queue


COLUMNS: Columns[Slowdown] = {
    "TYPE": lambda row: row.type or "",
    "KEY": lambda row: row.key or "",
    "STATE": lambda row: "resting" if row.resting else "recovering",
    "UNTIL": lambda row: row.until.isoformat(timespec="seconds"),
    "OVER AT": lambda row: row.over_at.isoformat(timespec="seconds"),
}


def document(row: Slowdown) -> dict[str, object]:
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
async def listed(queue: Queue, out: Printer) -> None:
    """List the types and limit keys that are slowed down."""
    found = await queue.limits.slowdowns()
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note("nothing is slowed down")


@slowdown.command("lift")
@click.argument("type", required=False)
@click.option("--key", metavar="KEY", help="A limit key instead of a type.")
@on_queue
async def lifted(queue: Queue, out: Printer, *, type: str | None, key: str | None) -> None:
    """Lift the slow-down of a TYPE or of a limit key."""
    if (type is None) == (key is None):
        raise click.UsageError("give a TYPE or --key KEY")
    was = await queue.limits.lift_slowdown(type, key=key)
    what = f"type {type}" if key is None else f"key {key}"
    text = f"{what} is no longer slowed down" if was else f"{what} was not slowed down"
    out.one({"type": type, "key": key, "was_slowed": was}, text)
