"""A graph as lines of text: one task on each line, with rails from each task to its dependents.

    ●        rails lead down; a line from the left leads to the task
    ├─●─╮    a line to the right leads from the task to its dependents
    ├─●─┤
    ╰─●─┤
    ●───╯    a corner upwards ends a rail in the task

Tasks with the same dependents share a rail, so that a fan of any width takes two rails. A line that
meets a rail as `│` passes behind it. A task directly below another depends on it, unless a line
from the left leads to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.dags.graph import Edges

TASK, MARKED = "●", "◆"
# The dependents that a rail still leads to.
Rail = frozenset[str]
EMPTY: Rail = frozenset()


def drawn(dependencies: Edges, marked: Collection[str] = ()) -> list[tuple[str, str]]:
    """The tasks of an acyclic graph with the line of each, dependencies first. Tasks in `marked`
    get a different sign.
    """
    dependents: dict[str, set[str]] = {id: set() for id in dependencies}
    for id, above in dependencies.items():
        for dependency in above:
            dependents[dependency].add(id)
    rails = Rails({id: frozenset(below) for id, below in dependents.items()})
    return [
        (id, rails.line(id, MARKED if id in marked else TASK))
        for id in ordered(dependencies, dependents)
    ]


def ordered(dependencies: Edges, dependents: dict[str, set[str]]) -> Iterator[str]:
    """Yields the tasks, dependencies first, each directly after one of them if possible."""
    place = {id: at for at, id in enumerate(dependencies)}
    waiting_for = {id: len(set(above)) for id, above in dependencies.items()}
    ready = [id for id in reversed(list(dependencies)) if not waiting_for[id]]
    while ready:
        id = ready.pop()
        yield id
        for dependent in sorted(dependents[id], key=place.__getitem__, reverse=True):
            waiting_for[dependent] -= 1
            if not waiting_for[dependent]:
                ready.append(dependent)


@dataclass(slots=True)
class Line:
    """The columns that a task's line connects: its own, those of rails that pass it, those of rails
    that end in it, and the one of its own rail.
    """

    at: int
    passed: list[int]
    ended: list[int]
    out: int
    joined: bool = False

    @property
    def left(self) -> int:
        """The first column of the line."""
        return min([self.at, *self.passed, *self.ended])

    @property
    def right(self) -> int:
        """The last column of the line."""
        return max([self.at, self.out, *self.ended])

    def sign(self, column: int, *, rail: bool) -> str:
        """The sign in another column than the task's; `rail`: another task's rail is there."""
        ends, crossed = column in self.ended, self.left < column < self.right
        if column == self.out:
            return "┤" if self.joined else "╮"
        if column in self.passed:
            return "├" if column == self.left else "┼"
        if ends and crossed:
            return "┴"
        if ends:
            return "╰" if column < self.at else "╯"
        return "│" if rail else "─" if crossed else " "


@dataclass(slots=True)
class Rails:
    """The rails below the tasks drawn so far, by column, and the column of the last task unless its
    rail is to its right. An empty rail means a free column.
    """

    dependents: dict[str, Rail]
    columns: list[Rail] = field(default_factory=list)
    above: int = -1
    alike: Counter[Rail] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.alike.update(self.dependents.values())

    def line(self, id: str, sign: str) -> str:
        """The line of the next task."""
        before = list(enumerate(self.columns))
        ended = [at for at, rail in before if rail == {id}]
        passed = [at for at, rail in before if id in rail and len(rail) > 1]
        self.columns = [rail - {id} for rail in self.columns]
        at = self.place(passed, ended)
        line = Line(at, passed, [column for column in ended if column != at], at)
        self.add_rail(id, line)
        self.above = at if line.out == at else -1
        cells = []
        for column, rail in enumerate(self.columns):
            other = bool(rail) and column != at
            cells.append(sign if column == at else line.sign(column, rail=other))
            cells.append("─" if line.left <= column < line.right else " ")
        return "".join(cells).rstrip()

    def place(self, passed: list[int], ended: list[int]) -> int:
        """The column of a task: right of the rails that pass it, and not below a task if that would
        suggest a wrong edge.
        """
        at = self.free_after(max(passed, default=-1))
        from_left = bool(passed) or any(column < at for column in ended)
        if at == self.above and from_left == (at in ended):
            return self.free_after(at)
        return at

    def add_rail(self, id: str, line: Line) -> None:
        """Gives a task with dependents a rail: one to its right that tasks with the same dependents
        share, else its own below it.
        """
        wanted = self.dependents[id]
        self.alike[wanted] -= 1
        if not wanted:
            return
        if not any(column > line.at for column in line.ended):
            shared = [at for at, rail in enumerate(self.columns) if rail == wanted and at > line.at]
            line.joined = bool(shared)
            if shared:
                line.out = shared[0]
            elif self.alike[wanted]:
                line.out = self.free_after(line.at)
        self.columns[line.out] = wanted

    def free_after(self, column: int) -> int:
        """The first free column right of a column."""
        for at in range(column + 1, len(self.columns)):
            if not self.columns[at]:
                return at
        self.columns.append(EMPTY)
        return len(self.columns) - 1
