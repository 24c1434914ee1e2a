"""A DAG while it goes on: views of it until it has ended, for a terminal, a pipe and programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.dag_export import whole
from rqueue.cli.dag_picture import progress
from rqueue.cli.frame import waited
from rqueue.cli.output import note
from rqueue.clock import SYSTEM
from rqueue.errors import StoreUnavailable
from rqueue.model.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.cli.output import Printer
    from rqueue.client.daggraph import DagGraph
    from rqueue.client.ending import Told
    from rqueue.model.dag import Dag
    from rqueue.queue import Queue

# Looking at a large DAG may take the server and us at most this part of the time.
SHARE = 0.2
POLL_SEC = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be shown now: the last graph there was, and what keeps the next one away."""

    graph: DagGraph | None
    trouble: str = ""


async def follow(
    queue: Queue, dag: str, interval_sec: float, stop: asyncio.Event
) -> AsyncIterator[Seen]:
    """A view after each interval, until nothing more happens or `stop`; a server that is away is
    waited for.
    """
    seen = Seen(None)
    while not stop.is_set():
        began = SYSTEM.monotonic()
        try:
            seen = Seen(await queue.dag_desk.graph(dag))
        except StoreUnavailable as error:
            seen = Seen(seen.graph, str(error))
        yield seen
        if seen.graph is not None and seen.graph.at_rest and not seen.trouble:
            return
        took = SYSTEM.monotonic() - began
        await waited(stop, max(interval_sec, took / SHARE))


async def told(queue: Queue, out: Printer, dag: str, interval_sec: float) -> DagGraph | None:
    """Prints a document in each interval, or a line where something has changed; the last graph."""
    last, found = "", None
    async for seen in follow(queue, dag, interval_sec, asyncio.Event()):
        if seen.trouble:
            note(f"server away, trying again: {seen.trouble}")
        elif seen.graph is not None:
            found = seen.graph
            if out.as_json:
                out.json(whole(found))
            elif progress(found.dag) != last:
                last = progress(found.dag)
                click.echo(last)
    return found


async def ended(queue: Queue, dag: str, heard: Told | None) -> Dag:
    """A DAG when nothing more happens to it; `heard` is told how many of its tasks have ended."""
    desk = queue.dag_desk
    while True:
        found = await desk.get(dag)
        if heard is not None:
            heard(found.total - found.open, found.total)
        if found.ended:
            return found
        # What has failed may go on elsewhere, or wait for what is dead: that its tasks tell.
        if found.status is DagStatus.FAILED and (await desk.graph(dag)).at_rest:
            return found
        await asyncio.sleep(POLL_SEC)
