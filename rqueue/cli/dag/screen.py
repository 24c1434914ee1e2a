"""A DAG on a terminal in colours, drawn once or live until it has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rqueue.cli.dag.picture import head, progress, summary, table
from rqueue.cli.dag.watch import Seen, follow
from rqueue.cli.output.screen import drawing, pressed
from rqueue.cli.top.panels import AROUND, fitted, narrowed

if TYPE_CHECKING:
    from rqueue.dags.view import DagGraph
    from rqueue.queue import Queue

STYLES = {"completed": "green", "failed": "bold red", "cancelled": "dim", "running": "cyan"}


def shown(graph: DagGraph, width: int) -> Group:
    """A whole DAG for a terminal of this width."""
    lines = [Text(line) for line in head(graph)]
    return Group(*lines, drawing(narrowed(table(graph, width), width)))


def picture(seen: Seen, width: int, height: int) -> Group:
    """A watched DAG for a terminal of this size, summarised if it does not fit."""
    lines = (
        [Text(f"server unavailable, retrying: {seen.trouble}", "bold red")] if seen.trouble else []
    )
    if seen.graph is None:
        return Group(*(lines or [Text("loading")]))
    dag = seen.graph.dag
    lines.append(Text(progress(dag), STYLES.get(dag.status, ""), no_wrap=True))
    lines += [Text(line, no_wrap=True, overflow="ellipsis") for line in head(seen.graph)]
    whole, room = table(seen.graph, width), height - len(lines)
    if len(whole.rows) + AROUND > room:
        whole = summary(seen.graph)
    return Group(*lines, *(drawing(narrowed(one, width)) for one in fitted([whole], room)))


async def live(queue: Queue, dag: str, interval_sec: float) -> DagGraph | None:
    """Shows a DAG until it has ended or q is pressed, and returns the last graph."""
    console, stop, found = Console(), asyncio.Event(), None
    with pressed(stop.set), Live(console=console, screen=True, auto_refresh=False) as drawn:
        # A large DAG takes seconds to read.
        drawn.update(picture(Seen(None), console.width, console.height), refresh=True)
        async for seen in follow(queue, dag, interval_sec, stop):
            found = seen.graph
            drawn.update(picture(seen, console.width, console.height), refresh=True)
    return found
