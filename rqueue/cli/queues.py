"""`rqueue counts, queues, events`: the tasks and events of queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, clean, note
from rqueue.cli.session import on_queue, on_server
from rqueue.task.state import LEASED, WAITING, State

if TYPE_CHECKING:
    from rqueue.core.counts import Counts
    from rqueue.core.events import Event
    from rqueue.queue import Queue


TypeCounts = tuple[str, dict[State, int]]


def number_of(*states: State) -> Columns[TypeCounts]:
    """A column for each state."""

    def column(state: State) -> Callable[[TypeCounts], str]:
        return lambda row: str(row[1].get(state, 0))

    return {state: column(state) for state in states}


COUNTED: Columns[TypeCounts] = {
    "TYPE": lambda row: row[0],
    **number_of(*(state for state in State if state not in (State.CREATED, State.FAILED))),
}


@click.command()
@on_queue
async def counts(queue: Queue, out: Printer) -> None:
    """Count tasks by type and state.

    COMPLETED and CANCELLED count all tasks since the queue was created.
    """
    found = await queue.counts()
    if out.as_json:
        out.json(counts_document(found))
        return
    rows = [*sorted(found.by_type.items()), ("all", found.by_state)]
    out.rows(rows, COUNTED, lambda row: row)
    if found.paused:
        note(f"paused: {', '.join(sorted(found.paused))}")


def counts_document(found: Counts) -> dict[str, object]:
    """The counts as a JSON document."""
    return {
        "by_state": found.by_state,
        "by_type": found.by_type,
        "by_tier": {tier.value: number for tier, number in found.by_tier.items()},
        "live": found.live,
        "submitted": found.submitted,
        "outbox": found.outbox,
        "paused": sorted(found.paused),
    }


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """A queue and its counts."""

    name: str
    counts: Counts

    def of(self, *states: State) -> str:
        """How many tasks are in these states."""
        return str(sum(self.counts[state] for state in states))


QUEUES: Columns[QueueCounts] = {
    "QUEUE": lambda line: line.name,
    "READY": lambda line: line.of(State.READY),
    "WAITING": lambda line: line.of(*(WAITING - {State.READY})),
    "LEASED": lambda line: line.of(*LEASED),
    "DEAD": lambda line: line.of(State.DEAD_LETTERED),
    "COMPLETED": lambda line: line.of(State.COMPLETED),
    "PAUSED": lambda line: ", ".join(sorted(line.counts.paused)),
}


@click.command()
@on_server
async def queues(queue: Queue, out: Printer, name: str | None) -> None:
    """List the queues on the server with their counts."""
    from rqueue.core.counts import find_queues  # noqa: PLC0415 - commands import what they call

    names = await find_queues(queue._internals.runtime.connection, queue.settings.namespace)
    lines = [QueueCounts(found, await other_queue(queue, found).counts()) for found in names]
    out.rows(lines, QUEUES, lambda line: {"queue": line.name, **counts_document(line.counts)})


def other_queue(queue: Queue, name: str) -> Queue:
    """Another queue over the same connection."""
    from rqueue.queue import Queue  # noqa: PLC0415
    from rqueue.runtime import assemble  # noqa: PLC0415
    from rqueue.settings.load import Settings  # noqa: PLC0415

    settings = Settings.load(name, url=queue.settings.url, namespace=queue.settings.namespace)
    return Queue(name, runtime=assemble(settings, queue._internals.runtime.connection))


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Print new events until Ctrl-C.")
@click.option("--after", metavar="ID", help="Only events after this one; $ means now.")
@click.option(
    "--event",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only events of this name or pattern, such as task.*. [repeatable]",
)
@click.option("--task", metavar="ID", help="Only events of this task.")
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
    """Show the events of a queue.

    About 10,000 events are kept. docs/events.md lists their names.
    """
    wait = None if follow else 0.0
    async for event in queue.events(after, names=names, task=task, wait=wait):
        if out.as_json:
            out.json(event.document())
        else:
            click.echo(line(event))


def line(event: Event) -> str:
    """An event as one line of text."""
    at = event.at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    shown = f"{at}  {event.severity:8}  {event.name:18}  {event.summary}"
    return clean(f"{shown}  {event.id}")
