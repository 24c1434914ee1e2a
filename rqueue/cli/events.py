"""`rqueue events`: what happened, and what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Printer, clean
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.model.event import Event
    from rqueue.queue import Queue


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--after", metavar="ID", help="Only what came after this event; $ for now.")
@click.option(
    "--event", "names", multiple=True, metavar="NAME", help="Such as task.*. [repeatable]"
)
@click.option("--task", metavar="ID", help="Of this task.")
@on_queue
async def events(
    queue: Queue,
    out: Printer,
    *,
    follow: bool,
    after: str | None,
    names: tuple[str, ...],
    task: str | None,
) -> None:
    """Show what happened in a queue.

    Only the last ones are kept, about 10,000. docs/events.md says which there are.
    """
    wait = None if follow else 0.0
    async for event in queue.events(after, names=names, task=task, wait=wait):
        if out.as_json:
            out.json(event.document())
        else:
            click.echo(line(event))


def line(event: Event) -> str:
    """An event for people."""
    at = event.at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    shown = f"{at}  {event.severity:8}  {event.name:18}  {event.summary}"
    return clean(f"{shown}  {event.id}")
