"""Graphs of named tasks: topological order, validation and critical path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.errors import InvalidGraph
from rqueue.task.priority import dependency_boost

if TYPE_CHECKING:
    from collections.abc import Hashable


Edges = Mapping[str, Sequence[str]]


def ordered(dependencies: Edges, *, known: Iterable[Hashable] = ()) -> list[str]:
    """Returns the names in topological order, each after its dependencies. Otherwise keeps the
    given order.

    `known` are dependencies outside the graph. Raises InvalidGraph with the faulty path: a
    self-edge, an unknown dependency, or a cycle.
    """
    dependents, waits = dependents_of(dependencies, set(known))
    free = [name for name in dependencies if not waits[name]]
    # The loop appends to the list that it iterates over.
    for name in free:
        for dependent in dependents[name]:
            waits[dependent] -= 1
            if not waits[dependent]:
                free.append(dependent)
    if len(free) < len(waits):
        raise InvalidGraph("tasks depend on each other in a cycle", cycle(dependencies, waits))
    return free


def dependents_of(
    dependencies: Edges, outside: set[Hashable]
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Returns the dependents of each task, and how many of its dependencies are in the graph."""
    dependents: dict[str, list[str]] = {name: [] for name in dependencies}
    waits: dict[str, int] = {}
    for name, above in dependencies.items():
        inner = [dependency for dependency in above if dependency not in outside]
        for dependency in inner:
            if dependency == name:
                raise InvalidGraph("a task depends on itself", (name, name))
            if dependency not in dependents:
                raise InvalidGraph("depends on a task that is not in the graph", (name, dependency))
            dependents[dependency].append(name)
        waits[name] = len(inner)
    return dependents, waits


def cycle(dependencies: Edges, waits: Mapping[str, int]) -> tuple[str, ...]:
    """Returns a cycle among the tasks with open dependencies, from a task back to itself."""
    name = next(name for name, count in waits.items() if count)
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        name = next(dependency for dependency in dependencies[name] if waits.get(dependency))
    names = list(path)
    # The path was walked from dependent to dependency; it is returned in execution order.
    return (name, *reversed(names[names.index(name) :]))


def roots(dependencies: Edges) -> list[str]:
    """Returns the tasks without a dependency in the graph."""
    return [
        name for name, above in dependencies.items() if not any(p in dependencies for p in above)
    ]


def leaves(dependencies: Edges) -> list[str]:
    """Returns the tasks without a dependent."""
    inner = {dependency for above in dependencies.values() for dependency in above}
    return [name for name in dependencies if name not in inner]


def remaining(dependencies: Edges, order: Sequence[str]) -> dict[str, int]:
    """Returns, for each task, the number of tasks on the longest path from it to a leaf, itself
    included. `order` is the result of `ordered`.
    """
    found = dict.fromkeys(order, 1)
    for name in reversed(order):
        for dependency in dependencies[name]:
            if dependency in found:
                found[dependency] = max(found[dependency], found[name] + 1)
    return found


def critical_path(dependencies: Edges, weights: Mapping[str, float]) -> list[str]:
    """Returns the path from a root to a leaf with the largest total weight."""
    best: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for name in ordered(dependencies, known=missing(dependencies)):
        inner = [dependency for dependency in dependencies[name] if dependency in best]
        above = max(inner, key=best.__getitem__, default=None)
        best[name] = weights.get(name, 0.0) + (best[above] if above is not None else 0.0)
        before[name] = above
    at = max(best, key=best.__getitem__, default=None)
    path: list[str] = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def missing(dependencies: Edges) -> set[str]:
    """Returns the dependencies that are not in the graph."""
    return {
        dependency
        for above in dependencies.values()
        for dependency in above
        if dependency not in dependencies
    }


def ranks(dependencies: Edges) -> dict[str, float]:
    """Returns the critical-path boost of each task that has not ended, in points. Dependencies
    outside the graph count as ended. A graph with a cycle, which occurs only in damaged data, gets
    no boosts.
    """
    try:
        order = ordered(dependencies, known=missing(dependencies))
    except InvalidGraph:
        return dict.fromkeys(dependencies, 0.0)
    lengths = remaining(dependencies, order)
    longest = max(lengths.values(), default=0)
    return {name: dependency_boost(length, longest) for name, length in lengths.items()}
