"""`rqueue dag show --watch`: views of a DAG until it is at rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.dag.export import whole
from rqueue.cli.dag.picture import head, progress, summary, table
from rqueue.cli.output.panels import AROUND, drawing, fitted, narrowed, on_quit
from rqueue.cli.output.tables import note
from rqueue.clock import SYSTEM, paused
from rqueue.errors import StoreUnavailable

if TYPE_CHECKING:
    from rich.console import Group

    from rqueue.cli.output.tables import Printer
    from rqueue.dags.view import DagGraph
    from rqueue.queue import Queue

# Reading a large DAG takes at most this share of the time.
SHARE = 0.2
STYLES = {"completed": "green", "failed": "bold red", "cancelled": "dim", "running": "cyan"}


@dataclass(frozen=True, slots=True)
class DagView:
    """The last graph that was read, and the error of a later read that failed."""

    graph: DagGraph | None
    error: str = ""


async def follow(
    queue: Queue, dag: str, interval_sec: float, stop: asyncio.Event
) -> AsyncIterator[DagView]:
    """Yields a view after each interval, until the DAG is at rest or `stop` is set. A read that
    fails because the server is unavailable is retried.
    """
    view = DagView(None)
    while not stop.is_set():
        began = SYSTEM.monotonic()
        try:
            view = DagView(await queue.dags.show(dag))
        except StoreUnavailable as error:
            view = DagView(view.graph, str(error))
        yield view
        if view.graph is not None and view.graph.at_rest and not view.error:
            return
        took = SYSTEM.monotonic() - began
        await paused(stop, max(interval_sec, took / SHARE))


async def print_changes(
    queue: Queue, out: Printer, dag: str, interval_sec: float
) -> DagGraph | None:
    """Prints a document in each interval, or a line for each change; returns the last graph."""
    last, found = "", None
    async for view in follow(queue, dag, interval_sec, asyncio.Event()):
        if view.error:
            note(f"server unavailable, retrying: {view.error}")
        elif view.graph is not None:
            found = view.graph
            if out.as_json:
                out.json(whole(found))
            elif progress(found.dag) != last:
                last = progress(found.dag)
                click.echo(last)
    return found


def shown(graph: DagGraph, width: int) -> Group:
    """A whole DAG for a terminal of this width."""
    # Imported here: rich takes a tenth of a second.
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines = [Text(line) for line in head(graph)]
    return Group(*lines, drawing(narrowed(table(graph, width), width)))


def picture(view: DagView, width: int, height: int) -> Group:
    """A watched DAG for a terminal of this size, summarised if it does not fit."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines = [Text(f"server unavailable, retrying: {view.error}", "bold red")] if view.error else []
    if view.graph is None:
        return Group(*(lines or [Text("loading")]))
    dag = view.graph.dag
    lines.append(Text(progress(dag), STYLES.get(dag.status, ""), no_wrap=True))
    lines += [Text(line, no_wrap=True, overflow="ellipsis") for line in head(view.graph)]
    panel, space = table(view.graph, width), height - len(lines)
    if len(panel.rows) + AROUND > space:
        panel = summary(view.graph)
    return Group(*lines, *(drawing(narrowed(one, width)) for one in fitted([panel], space)))


async def live(queue: Queue, dag: str, interval_sec: float) -> DagGraph | None:
    """Shows a DAG until it has ended or q is pressed, and returns the last graph."""
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console, stop, found = Console(), asyncio.Event(), None
    with on_quit(stop.set), Live(console=console, screen=True, auto_refresh=False) as drawn:
        # A large DAG takes seconds to read.
        drawn.update(picture(DagView(None), console.width, console.height), refresh=True)
        async for view in follow(queue, dag, interval_sec, stop):
            found = view.graph
            drawn.update(picture(view, console.width, console.height), refresh=True)
    return found
