"""Graphs of named tasks: their order, what is wrong with them, and the longest way through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.errors import InvalidGraph

if TYPE_CHECKING:
    from collections.abc import Hashable

Edges = Mapping[str, Sequence[str]]


def ordered(parents: Edges, *, known: Iterable[Hashable] = ()) -> list[str]:
    """The names, each after its parents, in the order given where that is free.

    `known` are parents outside the graph. Raises InvalidGraph with the path that is wrong: a
    self-edge, a parent that is not there, or a cycle.
    """
    children, waits = below(parents, set(known))
    free = [name for name in parents if not waits[name]]
    # The list grows while it is read.
    for name in free:
        for child in children[name]:
            waits[child] -= 1
            if not waits[child]:
                free.append(child)
    if len(free) < len(waits):
        raise InvalidGraph("tasks depend on each other in a circle", circle(parents, waits))
    return free


def below(parents: Edges, outside: set[Hashable]) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Each task's children, and how many of its parents are in the graph."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    waits: dict[str, int] = {}
    for name, above in parents.items():
        inner = [parent for parent in above if parent not in outside]
        for parent in inner:
            if parent == name:
                raise InvalidGraph("a task depends on itself", (name, name))
            if parent not in children:
                raise InvalidGraph("depends on a task that is not in the graph", (name, parent))
            children[parent].append(name)
        waits[name] = len(inner)
    return children, waits


def circle(parents: Edges, waits: Mapping[str, int]) -> tuple[str, ...]:
    """A cycle among those that still wait for something, from a task back to itself."""
    name = next(name for name, count in waits.items() if count)
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        name = next(parent for parent in parents[name] if waits.get(parent))
    names = list(path)
    # Upwards one by one was against the edges: told the way the work would go.
    return (name, *reversed(names[names.index(name) :]))


def roots(parents: Edges) -> list[str]:
    """The tasks that wait for none of the others."""
    return [name for name, above in parents.items() if not any(p in parents for p in above)]


def leaves(parents: Edges) -> list[str]:
    """The tasks that none of the others waits for."""
    inner = {parent for above in parents.values() for parent in above}
    return [name for name in parents if name not in inner]


def remaining(parents: Edges, order: Sequence[str]) -> dict[str, int]:
    """For each task how many there are on the longest way from it to an end, itself included.
    `order` is that of `ordered`.
    """
    found = dict.fromkeys(order, 1)
    for name in reversed(order):
        for parent in parents[name]:
            if parent in found:
                found[parent] = max(found[parent], found[name] + 1)
    return found


def critical_path(parents: Edges, weights: Mapping[str, float]) -> list[str]:
    """The way through the graph whose weights add up to most, from a root to a leaf."""
    best: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for name in ordered(parents, known=missing(parents)):
        inner = [parent for parent in parents[name] if parent in best]
        above = max(inner, key=best.__getitem__, default=None)
        best[name] = weights.get(name, 0.0) + (best[above] if above is not None else 0.0)
        before[name] = above
    at = max(best, key=best.__getitem__, default=None)
    path: list[str] = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def missing(parents: Edges) -> set[str]:
    """The parents that are not in the graph."""
    return {parent for above in parents.values() for parent in above if parent not in parents}
