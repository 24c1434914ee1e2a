"""`rqueue slowdown`: types and limit keys at rest because a service is limited."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.model.slowdown import Slowdown
    from rqueue.queue import Queue


COLUMNS: Columns[Slowdown] = {
    "TYPE": lambda row: row.type or "",
    "KEY": lambda row: row.key or "",
    "STATE": lambda row: "resting" if row.resting else "recovering",
    "UNTIL": lambda row: row.until.isoformat(timespec="seconds"),
    "OVER AT": lambda row: row.over_at.isoformat(timespec="seconds"),
}


def document(row: Slowdown) -> dict[str, object]:
    """A slow-down for programs."""
    return asdict(row) | {"until": row.until.isoformat(), "over_at": row.over_at.isoformat()}


@click.group()
def slowdown() -> None:
    """Slow-downs: types and limit keys of limited services.

    After a rate limit nothing of a type or key is handed out for a while, then ever more.
    """


@slowdown.command("list")
@on_queue
async def listed(queue: Queue, out: Printer) -> None:
    """List the types and limit keys that are slowed down."""
    found = await queue.slowdowns()
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note("nothing is slowed down")


@slowdown.command("lift")
@click.argument("type", required=False)
@click.option("--key", metavar="KEY", help="That of a limit key instead.")
@on_queue
async def lifted(queue: Queue, out: Printer, *, type: str | None, key: str | None) -> None:
    """Hand out all tasks of a TYPE, or of a limit key, again."""
    if (type is None) == (key is None):
        raise click.UsageError("give a TYPE or --key KEY")
    was = await queue.lift_slowdown(type, key=key)
    what = f"type {type}" if key is None else f"key {key}"
    text = f"{what} is slowed down no more" if was else f"{what} was not slowed down"
    out.one({"type": type, "key": key, "was_slowed": was}, text)
