"""How far the turns of keys have come, over all lanes of a shard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Record


@dataclass(slots=True)
class Exchanged:
    """How far the turns have come, and those of the keys that are further on."""

    now: int = 0
    keys: dict[str, int] = field(default_factory=dict)

    def begins(self, key: str) -> int:
        """Where the turns of a key begin that comes into a lane."""
        return max(self.now, self.keys.get(key, 0))


@dataclass(slots=True)
class Line:
    """What a lane knows of its keys: how far the turns of those have come that may be given one,
    which are shut until when, and by rules of which name.
    """

    turns: dict[str, int] = field(default_factory=dict)
    shut: dict[str, float] = field(default_factory=dict)
    rules: str = ""


class Round:
    """The turns of one claim, over all lanes that it looks at: `at` has those of the keys that it
    has given something.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.now, self.served = model.turned.now, -1
        self.at: dict[str, int] = {}

    def move(self, key: str, at: int, step: int, turn: int) -> int:
        """A key is given a turn; by how much it moves on. One that is behind the turns of all
        moves by as many as it has missed, by its weight, and no further than one more than all.
        """
        behind = max(0, self.now - at)
        to = min(at + step * (1 + behind // turn), at + behind + step)
        self.at[key], self.now = to, max(self.now, at)
        return to - at

    def end(self, looked: Collection[int]) -> None:
        """Keys go on from behind what they were given, in all these lanes; those that were given
        nothing stay where they are.
        """
        if self.served < 0:
            return
        turned = self.model.turned
        turned.now = max(turned.now, self.served)
        further = {key: max(at, turned.keys.get(key, 0)) for key, at in self.at.items()}
        turned.keys = {k: at for k, at in (turned.keys | further).items() if at > turned.now}
        for number in looked:
            turns = self.model.lines[number].turns
            turns |= {key: max(came, self.at.get(key, 0)) for key, came in turns.items()}


def line_up(model: Model) -> None:
    """Brings what lanes know of their keys in step with the tasks: which may be given a turn. One
    that comes has saved no turns up.
    """
    waiting: dict[int, set[str]] = {n: set() for lane, n in model.lanes.items() if lane.keyed}
    for record in model.ready() if waiting else ():
        if record.lane in waiting:
            waiting[record.lane].add(record.key)
    for number, keys in waiting.items():
        line = model.lines.setdefault(number, Line())
        stand = keys - line.shut.keys()
        line.turns = {key: line.turns.get(key, model.turned.begins(key)) for key in stand}


def by_key(model: Model, number: int) -> dict[str, list[Record]]:
    """The tasks of a lane that may be claimed, the next one first, by their keys."""
    found: dict[str, list[Record]] = {}
    for task in model.lane(number):
        found.setdefault(model.tasks[task].key, []).append(model.tasks[task])
    return found
