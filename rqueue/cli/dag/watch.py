"""Views of a DAG until it has ended, and their output in a pipe and as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.dag.export import whole
from rqueue.cli.dag.picture import progress
from rqueue.cli.output.tables import note
from rqueue.cli.top.frame import waited
from rqueue.clock import SYSTEM
from rqueue.errors import StoreUnavailable
from rqueue.task.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.cli.output.tables import Printer
    from rqueue.dags.view import DagGraph
    from rqueue.operations import Progress
    from rqueue.queue import Queue
    from rqueue.task.dag import Dag

# Reading a large DAG takes at most this share of the time.
SHARE = 0.2
POLL_SEC = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """The last graph that was read, and the error of a later read that failed."""

    graph: DagGraph | None
    trouble: str = ""


async def follow(
    queue: Queue, dag: str, interval_sec: float, stop: asyncio.Event
) -> AsyncIterator[Seen]:
    """Yields a view after each interval, until the DAG is at rest or `stop` is set. An unavailable
    server is asked again.
    """
    seen = Seen(None)
    while not stop.is_set():
        began = SYSTEM.monotonic()
        try:
            seen = Seen(await queue.dags.show(dag))
        except StoreUnavailable as error:
            seen = Seen(seen.graph, str(error))
        yield seen
        if seen.graph is not None and seen.graph.at_rest and not seen.trouble:
            return
        took = SYSTEM.monotonic() - began
        await waited(stop, max(interval_sec, took / SHARE))


async def told(queue: Queue, out: Printer, dag: str, interval_sec: float) -> DagGraph | None:
    """Prints a document in each interval, or a line for each change; returns the last graph."""
    last, found = "", None
    async for seen in follow(queue, dag, interval_sec, asyncio.Event()):
        if seen.trouble:
            note(f"server unavailable, retrying: {seen.trouble}")
        elif seen.graph is not None:
            found = seen.graph
            if out.as_json:
                out.json(whole(found))
            elif progress(found.dag) != last:
                last = progress(found.dag)
                click.echo(last)
    return found


async def ended(queue: Queue, dag: str, heard: Progress | None) -> Dag:
    """Waits until a DAG is at rest and returns it; `heard` receives the number of ended tasks."""
    while True:
        found = await queue.dags.status(dag)
        if heard is not None:
            heard(found.total - found.open, found.total)
        if found.ended:
            return found
        # A failed DAG may still have tasks that run; only its tasks show whether it is at rest.
        if found.status is DagStatus.FAILED and (await queue.dags.show(dag)).at_rest:
            return found
        await asyncio.sleep(POLL_SEC)
