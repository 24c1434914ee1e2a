"""A DAG on a terminal, in colours: once, or live until it has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rqueue.cli.dag_picture import head, progress, summary, table
from rqueue.cli.dag_watch import Seen, follow
from rqueue.cli.panels import AROUND, fitted, narrowed
from rqueue.cli.screen import drawing, pressed

if TYPE_CHECKING:
    from rqueue.client.daggraph import DagGraph
    from rqueue.queue import Queue

STYLES = {"completed": "green", "failed": "bold red", "cancelled": "dim", "running": "cyan"}


def shown(graph: DagGraph, width: int) -> Group:
    """The whole of a DAG in a terminal of this width."""
    lines = [Text(line) for line in head(graph)]
    return Group(*lines, drawing(narrowed(table(graph, width), width)))


def picture(seen: Seen, width: int, height: int) -> Group:
    """A DAG that is watched, in a terminal of this size: what does not fit is summarised."""
    lines = [Text(f"server away, trying again: {seen.trouble}", "bold red")] if seen.trouble else []
    if seen.graph is None:
        return Group(*(lines or [Text("looking")]))
    dag = seen.graph.dag
    lines.append(Text(progress(dag), STYLES.get(dag.status, ""), no_wrap=True))
    lines += [Text(line, no_wrap=True, overflow="ellipsis") for line in head(seen.graph)]
    whole, room = table(seen.graph, width), height - len(lines)
    if len(whole.rows) + AROUND > room:
        whole = summary(seen.graph)
    return Group(*lines, *(drawing(narrowed(one, width)) for one in fitted([whole], room)))


async def live(queue: Queue, dag: str, interval_sec: float) -> DagGraph | None:
    """Shows a DAG until it has ended, or q is pressed; the last graph."""
    console, stop, found = Console(), asyncio.Event(), None
    with pressed(stop.set), Live(console=console, screen=True, auto_refresh=False) as drawn:
        # A large one is read for seconds.
        drawn.update(picture(Seen(None), console.width, console.height), refresh=True)
        async for seen in follow(queue, dag, interval_sec, stop):
            found = seen.graph
            drawn.update(picture(seen, console.width, console.height), refresh=True)
    return found
