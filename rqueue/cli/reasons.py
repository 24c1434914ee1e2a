"""`rqueue why`: what holds a task back, and when it may begin at the earliest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Printer, clean
from rqueue.cli.session import on_queue
from rqueue.model.state import IN_HAND
from rqueue.policy.reasons import told

if TYPE_CHECKING:
    from rqueue.client.reasons import Why
    from rqueue.queue import Queue


@click.command()
@click.argument("task", metavar="ID")
@on_queue
async def why(queue: Queue, out: Printer, task: str) -> None:
    """Say why a task does not run yet.

    Everything that holds it back, as a claim would find it now: tasks it waits for, its time,
    pauses, breakers, limits, no worker that could; and when it may begin at the earliest. Of one
    with a limit key also how many have their turn before it.
    """
    found = await queue.why(task)
    if out.as_json:
        out.json(document(found))
        return
    click.echo(f"{found.task} is {found.state}")
    for hold in found.holds:
        until = f" until {hold.until.isoformat(timespec='seconds')}" if hold.until else ""
        click.echo(f"- {clean(told(hold))}{until}")
    click.echo(conclusion(found))


def conclusion(found: Why) -> str:
    """What follows from all that."""
    if found.state in IN_HAND:
        return "it is under way"
    ahead = found.ahead if found.turns is None else found.turns
    come = "come before it" if found.turns is None else "have their turn before it"
    turn = f"{ahead} tasks {come}" if ahead else "it is the next"
    if not found.holds:
        return f"nothing holds it back: {turn}"
    if found.earliest is None:
        return "it may begin when these are gone"
    return f"it may begin at {found.earliest.isoformat(timespec='seconds')}; {turn}"


def document(found: Why) -> dict[str, object]:
    """The reasons for programs."""
    return {
        "id": found.task,
        "state": found.state,
        "holds": [
            {
                "word": hold.word,
                "what": hold.what,
                "until": hold.until.isoformat() if hold.until else None,
                "told": told(hold),
            }
            for hold in found.holds
        ],
        "earliest": found.earliest.isoformat() if found.earliest else None,
        "ahead": found.ahead,
        "turns": found.turns,
    }
