"""Abstract Lua values: a text or its beginning, a table, a function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tools.lua.tree import Function

# A longer text is not a key, or is built in a loop.
LONGEST = 48
MOST = 16


class Text(NamedTuple):
    """A text or number: whether it begins with the root of the queue's keys, the text after that,
    and whether unknown text may follow.
    """

    rooted: bool
    text: str
    open: bool

    def joined(self, other: Text) -> Text:
        """This text followed by another one."""
        if self.open or other.rooted:
            return Text(self.rooted, self.text, open=True)
        text = self.text + other.text
        if len(text) > LONGEST:
            return Text(self.rooted, text[:LONGEST], open=True)
        return Text(self.rooted, text, other.open)


@dataclass(slots=True, eq=False)
class Cell:
    """All values of one variable, and the frames that have read them."""

    values: Values = frozenset()
    readers: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Table:
    """All tables of one constructor. `anywhere` has the values that were set under unknown keys,
    `named` those keys, `behind` the values that were added after the `items` of the constructor.
    """

    items: int = 0
    # Whether it is KEYS or ARGV: a computed index refers to the rows after the named ones.
    arguments: bool = False
    # By name; a position has the prefix `#`.
    fields: dict[str, Cell] = field(default_factory=dict)
    anywhere: Cell = field(default_factory=Cell)
    named: Cell = field(default_factory=Cell)
    behind: Cell = field(default_factory=Cell)
    # Frames that have listed the fields, or read one that did not exist.
    readers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Closure:
    """A function, and the frame in which it was created."""

    function: Function
    made_in: int


class Builtin(NamedTuple):
    """A function of Lua or of Redis."""

    name: str


Value = Text | Table | Closure | Builtin
Values = frozenset[Value]

ROOT = Text(rooted=True, text="", open=False)
# Any key of the queue, as returned by SCAN.
ANY_KEY = Text(rooted=True, text="*", open=False)
UNKNOWN = Text(rooted=False, text="", open=True)

NOTHING: Values = frozenset()
SOMETHING: Values = frozenset({UNKNOWN})


def literal(text: str) -> Text:
    """A text that is known completely."""
    return Text(rooted=False, text=text, open=False)


def literals(values: Values) -> list[str] | None:
    """The texts of the values if all are known, else None."""
    found = []
    for value in values:
        if not isinstance(value, Text) or value.open or value.rooted:
            return None
        found.append(value.text)
    return found


def bounded(values: Values) -> Values:
    """The same values, where one unknown text replaces all texts that do not begin with the root,
    if one of them is unknown or there are more than MOST.
    """
    plain = frozenset(one for one in values if isinstance(one, Text) and not one.rooted)
    if UNKNOWN in plain or len(plain) > MOST:
        return values - plain | SOMETHING
    return values


class Several(NamedTuple):
    """The values of a list of expressions: the first ones one by one, the others together."""

    front: list[Values]
    rest: Values = NOTHING

    def at(self, place: int) -> Values:
        return self.front[place] if place < len(self.front) else self.rest

    def all(self) -> Values:
        return self.rest.union(*self.front)


def together(found: list[Several]) -> Several:
    """The union of these lists."""
    if len(found) == 1:
        return found[0]
    width = max((len(one.front) for one in found), default=0)
    front = [NOTHING.union(*(one.at(at) for one in found)) for at in range(width)]
    return Several(front, NOTHING.union(*(one.rest for one in found)))


def concatenated(left: Values, right: Values) -> Values:
    """The concatenations of two sets of values. A right side without values yet counts as unknown,
    except after the bare root, where the result would match any key.
    """
    if not right:
        return frozenset(joined(one, UNKNOWN) for one in left if isinstance(one, Text) and one.text)
    return frozenset(joined(one, other) for one in left for other in right)


def joined(one: Value, other: Value) -> Text:
    """The concatenation of two values."""
    if isinstance(one, Text):
        return one.joined(other if isinstance(other, Text) else UNKNOWN)
    return UNKNOWN


def is_late(name: str, table: Table) -> bool:
    """Whether a field is a position after those of the constructor."""
    return name[0:1] == "#" and int(name[1:]) > table.items
