"""A graph in lines of text: a task on each, and rails from the tasks to those that come after them.

    ●        all rails lead down; what stands left of a task leads to it
    ├─●─╮    what leaves it to the right leads from it
    ├─●─┤
    ╰─●─┤
    ●───╯    but for a corner upwards, by which a rail ends in it

Tasks that lead to the same others share a rail, so that a fan of any width takes two. A line that
meets a rail as `│` passes behind it. A task right below another comes after it, unless a line from
the left leads to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.model.graph import Edges

TASK, MARKED = "●", "◆"
# To how many, and whom, a rail still leads.
Rail = frozenset[str]
NOBODY: Rail = frozenset()


def drawn(parents: Edges, marked: Collection[str] = ()) -> list[tuple[str, str]]:
    """The tasks of a graph without circles, each after its parents, with the line of each; tasks
    that are `marked` have a sign of their own.
    """
    children: dict[str, set[str]] = {id: set() for id in parents}
    for id, above in parents.items():
        for parent in above:
            children[parent].add(id)
    rails = Rails({id: frozenset(below) for id, below in children.items()})
    return [
        (id, rails.line(id, MARKED if id in marked else TASK)) for id in in_turn(parents, children)
    ]


def in_turn(parents: Edges, children: dict[str, set[str]]) -> Iterator[str]:
    """The tasks, each after its parents, and where it can be right behind one of them."""
    place = {id: at for at, id in enumerate(parents)}
    waits = {id: len(set(above)) for id, above in parents.items()}
    free = [id for id in reversed(list(parents)) if not waits[id]]
    while free:
        id = free.pop()
        yield id
        for child in sorted(children[id], key=place.__getitem__, reverse=True):
            waits[child] -= 1
            if not waits[child]:
                free.append(child)


@dataclass(slots=True)
class Line:
    """What one task's line joins: the column it stands in, those of the rails that go on to others,
    of those that end in it, and where its own rail is met.
    """

    at: int
    passed: list[int]
    ended: list[int]
    out: int
    joined: bool = False

    @property
    def left(self) -> int:
        """Where the line begins."""
        return min([self.at, *self.passed, *self.ended])

    @property
    def right(self) -> int:
        """Where the line ends."""
        return max([self.at, self.out, *self.ended])

    def sign(self, column: int, *, rail: bool) -> str:
        """What stands in a column but the task's; `rail`: another's rail is there."""
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
    """The rails below the tasks drawn so far, by column, and the column of the last task unless it
    led to its right. A rail that leads to nobody is no rail.
    """

    children: dict[str, Rail]
    columns: list[Rail] = field(default_factory=list)
    above: int = -1
    alike: Counter[Rail] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.alike.update(self.children.values())

    def line(self, id: str, sign: str) -> str:
        """The line of the next task."""
        before = list(enumerate(self.columns))
        ended = [at for at, rail in before if rail == {id}]
        passed = [at for at, rail in before if id in rail and len(rail) > 1]
        self.columns = [rail - {id} for rail in self.columns]
        at = self.place(passed, ended)
        line = Line(at, passed, [column for column in ended if column != at], at)
        self.lead_on(id, line)
        self.above = at if line.out == at else -1
        cells = []
        for column, rail in enumerate(self.columns):
            other = bool(rail) and column != at
            cells.append(sign if column == at else line.sign(column, rail=other))
            cells.append("─" if line.left <= column < line.right else " ")
        return "".join(cells).rstrip()

    def place(self, passed: list[int], ended: list[int]) -> int:
        """The column for a task: behind the rails that go on, and where what stands above it does
        not say the wrong thing.
        """
        at = self.free_after(max(passed, default=-1))
        from_left = bool(passed) or any(column < at for column in ended)
        if at == self.above and from_left == (at in ended):
            return self.free_after(at)
        return at

    def lead_on(self, id: str, line: Line) -> None:
        """Gives a task that leads to others a rail: to its right one that it shares or will, else
        its own below it.
        """
        wanted = self.children[id]
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
        """The first column behind one that has no rail."""
        for at in range(column + 1, len(self.columns)):
            if not self.columns[at]:
                return at
        self.columns.append(NOBODY)
        return len(self.columns) - 1
