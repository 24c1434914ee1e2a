"""Changes to one task, and pauses: what an operator does while the queue runs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from rqueue.cli.exits import nothing
from rqueue.cli.output import Printer, note
from rqueue.cli.session import Command, on_queue

if TYPE_CHECKING:
    from rqueue.queue import Queue


@click.command()
@click.argument("task", metavar="ID")
@click.argument("number", metavar="N", type=float)
@click.option("--scale", help="Another scale than the queue's: native, 1-10 or 0-3.")
@on_queue
async def priority(
    queue: Queue, out: Printer, task: str, number: float, *, scale: str | None
) -> None:
    """Give a task another priority; its age still counts."""
    await queue.set_priority(task, number, scale=scale)
    found = await queue.get(task)
    native = found.spec.priority
    out.one({"id": found.id, "priority": native}, f"{found.id} has priority {native:g}")


@click.command()
@click.argument("task", metavar="ID")
@click.option("--delay", type=float, metavar="SEC", help="So many seconds from now.")
@click.option("--at", metavar="TIME", help="At an instant, such as 2030-01-31T12:00:00Z.")
@on_queue
async def reschedule(
    queue: Queue, out: Printer, task: str, *, delay: float | None, at: str | None
) -> None:
    """Let a waiting task wait until another time."""
    if (delay is None) == (at is None):
        raise click.UsageError("give --delay or --at, one of them")
    await queue.reschedule(task, delay=delay, at=None if at is None else instant(at))
    found = await queue.get(task)
    until = found.available_at.isoformat() if found.available_at else ""
    out.one({"id": found.id, "available_at": until}, f"{found.id} waits until {until}")


def instant(text: str, option: str = "--at") -> datetime:
    """An instant from its text; the queue refuses one without a time zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: write ISO 8601, 2030-01-31T12:00:00Z") from error


@click.command("run-now")
@click.argument("task", metavar="ID")
@on_queue
async def run_now(queue: Queue, out: Printer, task: str) -> None:
    """End a task's waiting for its time.

    Exit 1 when it was not waiting for one.
    """
    moved = await queue.run_now(task)
    found = await queue.get(task)
    out.one({"id": found.id, "state": found.state}, f"{found.id} {found.state}")
    if not moved:
        note(f"{found.id} was not waiting for a time")
        raise nothing()


def gated(command: Command) -> Command:
    """Adds the options that say what is paused."""
    lane = click.option("--lane", type=int, metavar="N", help="This lane alone.")
    type = click.option("--type", metavar="TYPE", help="This type alone.")
    return type(lane(command))


def one_gate(type: str | None, lane: int | None) -> str:
    """What is meant, in words."""
    if type is not None and lane is not None:
        raise click.UsageError("give --type or --lane, one of them")
    if type is not None:
        return f"type {type}"
    return "the queue" if lane is None else f"lane {lane}"


@click.command()
@gated
@on_queue
async def pause(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """Hand out nothing of the queue, a type or a lane.

    What runs goes on.
    """
    what = one_gate(type, lane)
    await queue.pause(type=type, lane=lane)
    out.one({"paused": what}, f"{what} is paused")


@click.command()
@gated
@on_queue
async def resume(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """End a pause."""
    what = one_gate(type, lane)
    await queue.resume(type=type, lane=lane)
    out.one({"resumed": what}, f"{what} is resumed")
