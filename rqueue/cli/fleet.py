"""`rqueue counts` and `queues`: how much there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue, on_server
from rqueue.model.state import IN_HAND, WAITING, State
from rqueue.queue import Queue
from rqueue.runtime import assemble
from rqueue.settings import Settings
from rqueue.store.queues import find_queues

if TYPE_CHECKING:
    from rqueue.client.counts import Counts

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

    COMPLETED and CANCELLED are all that ended so since the queue began.
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
    """The counts for programs."""
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
class Line:
    """A queue and its counts."""

    name: str
    counts: Counts

    def of(self, *states: State) -> str:
        """How many tasks are in these states."""
        return str(sum(self.counts[state] for state in states))


QUEUES: Columns[Line] = {
    "QUEUE": lambda line: line.name,
    "READY": lambda line: line.of(State.READY),
    "WAITING": lambda line: line.of(*(WAITING - {State.READY})),
    "IN HAND": lambda line: line.of(*IN_HAND),
    "DEAD": lambda line: line.of(State.DEAD_LETTERED),
    "COMPLETED": lambda line: line.of(State.COMPLETED),
    "PAUSED": lambda line: ", ".join(sorted(line.counts.paused)),
}


@click.command()
@on_server
async def queues(queue: Queue, out: Printer, name: str | None) -> None:
    """List the queues on the server, with how much each has to do."""
    names = await find_queues(queue.runtime.connection, queue.settings.namespace)
    lines = [Line(found, await beside(queue, found).counts()) for found in names]
    out.rows(lines, QUEUES, lambda line: {"queue": line.name, **counts_document(line.counts)})


def beside(queue: Queue, name: str) -> Queue:
    """Another queue over the same connection."""
    settings = Settings.load(name, url=queue.settings.url, namespace=queue.settings.namespace)
    return Queue(name, runtime=assemble(settings, queue.runtime.connection))
