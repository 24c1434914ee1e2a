"""What the analysis knows of a Lua value: the beginning of a text, a table, a function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tools.lua.tree import Function

# Longer texts are no keys, or are built in a loop.
LONGEST = 48
MOST = 16


class Text(NamedTuple):
    """A text, or a number: whether the prefix of the queue's keys stands first, what follows it,
    and whether more may follow that nobody knows.
    """

    rooted: bool
    text: str
    open: bool

    def joined(self, other: Text) -> Text:
        """This text with another one behind it."""
        if self.open or other.rooted:
            return Text(self.rooted, self.text, open=True)
        text = self.text + other.text
        if len(text) > LONGEST:
            return Text(self.rooted, text[:LONGEST], open=True)
        return Text(self.rooted, text, other.open)


@dataclass(slots=True, eq=False)
class Cell:
    """All values of one variable, and the calls that have read them."""

    values: Values = frozenset()
    readers: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Table:
    """All tables that one constructor makes. `anywhere` is what was set under a key that is not
    known, `named` such keys, `behind` what was set behind the `items` of the constructor.
    """

    items: int = 0
    # Whether it is KEYS or ARGV: an index that is worked out means a row, behind those with names.
    arguments: bool = False
    # By name; a place in order has a `#` before it.
    fields: dict[str, Cell] = field(default_factory=dict)
    anywhere: Cell = field(default_factory=Cell)
    named: Cell = field(default_factory=Cell)
    behind: Cell = field(default_factory=Cell)
    # Who has asked which fields there are, or for one that there was not.
    readers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Closure:
    """A function, and the call in which it was made."""

    function: Function
    made_in: int


class Builtin(NamedTuple):
    """A function of Lua or of Redis."""

    name: str


Value = Text | Table | Closure | Builtin
Values = frozenset[Value]

ROOT = Text(rooted=True, text="", open=False)
# Any key of the queue, as SCAN names them.
ANY_KEY = Text(rooted=True, text="*", open=False)
UNKNOWN = Text(rooted=False, text="", open=True)

NOTHING: Values = frozenset()
SOMETHING: Values = frozenset({UNKNOWN})


def literal(text: str) -> Text:
    """A text that is known whole."""
    return Text(rooted=False, text=text, open=False)


def literals(values: Values) -> list[str] | None:
    """What the values are where each is a known text, else None."""
    found = []
    for value in values:
        if not isinstance(value, Text) or value.open or value.rooted:
            return None
        found.append(value.text)
    return found


def bounded(values: Values) -> Values:
    """The same values; one unknown text stands for all that do not begin with the root, and where
    there are very many of them, as a loop makes them.
    """
    plain = frozenset(one for one in values if isinstance(one, Text) and not one.rooted)
    if UNKNOWN in plain or len(plain) > MOST:
        return values - plain | SOMETHING
    return values


class Several(NamedTuple):
    """The values of a list of expressions: those in front one by one, the others together."""

    front: list[Values]
    rest: Values = NOTHING

    def at(self, place: int) -> Values:
        return self.front[place] if place < len(self.front) else self.rest

    def all(self) -> Values:
        return self.rest.union(*self.front)


def together(found: list[Several]) -> Several:
    """What any of these lists may be."""
    if len(found) == 1:
        return found[0]
    width = max((len(one.front) for one in found), default=0)
    front = [NOTHING.union(*(one.at(at) for one in found)) for at in range(width)]
    return Several(front, NOTHING.union(*(one.rest for one in found)))


def concatenated(left: Values, right: Values) -> Values:
    """Each of these with each of those behind it. One that nothing has given a value yet is
    unknown, but for the beginning of a key: that is worth waiting for.
    """
    if not right:
        return frozenset(joined(one, UNKNOWN) for one in left if isinstance(one, Text) and one.text)
    return frozenset(joined(one, other) for one in left for other in right)


def joined(one: Value, other: Value) -> Text:
    """Two values as one text."""
    if isinstance(one, Text):
        return one.joined(other if isinstance(other, Text) else UNKNOWN)
    return UNKNOWN


def is_late(name: str, table: Table) -> bool:
    """Whether a field is a place behind those of the constructor."""
    return name[0:1] == "#" and int(name[1:]) > table.items
