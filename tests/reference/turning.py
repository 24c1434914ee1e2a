"""Lanes of keys: whose turn it is, and which keys have none for a while."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.reference.gating import recovered
from tests.reference.limits import count_begun, opens_at, room
from tests.reference.rounds import Line, Round, by_key, line_up

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import LimitWords, Record

# The rules of a lane of keys, in the words of the claim script.
KeyRules = Mapping[str, Any]
# What the looks of one claim at its lanes share: its turns, and how many may pass each gate.
Around = tuple[Round, dict[str, float]]
# How many keys are given their turns again in one go.
MOST = 1000


@dataclass(slots=True)
class Crowds:
    """Of what somebody found as many in hand as may be: types, or `*`, and keys."""

    types: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


class Turning:
    """One claim's look at a lane of keys. `around` has what it has of all lanes: how far turns have
    come, and in `rooms` how many may still pass each gate that keys have.
    """

    def __init__(self, model: Model, number: int, rules: KeyRules, around: Around) -> None:
        self.model, self.number, self.rules = model, number, rules
        self.round, self.rooms = around
        self.line = model.lines.setdefault(number, Line())
        open_due(model, number, rules["name"])
        line_up(model)
        self.tasks = by_key(model, number)
        self.came = dict(self.line.turns)
        # By key the tasks that were picked, how far its turns had come, and by how much they moved.
        self.picked: dict[str, list[tuple[str, int, int]]] = {key: [] for key in self.tasks}
        self.unread = sorted(self.came, key=self.begin)
        self.standing: list[str] = []
        self.seen: list[str] = []
        # The keys that have another first task than when the claim began.
        self.fresh: set[str] = set()
        self.turn = ""

    @property
    def fair(self) -> bool:
        """Whether keys have turns, or only limits."""
        return bool(self.rules["fair"])

    def step(self, key: str) -> int:
        """How far one task moves a key."""
        found: int = self.rules["steps"].get(key, self.rules["step"])
        return found

    def begin(self, key: str) -> tuple[int, str]:
        """By what keys stand in line: how far their turns have come, or their first task."""
        if self.fair:
            return self.came[key], key
        return self.tasks[key][0].score, self.tasks[key][0].id

    def place(self, key: str) -> tuple[int, str]:
        """The same after what this claim has given them, whatever the lane."""
        at, name = self.begin(key)
        return (max(at, self.round.at.get(key, at)), name) if self.fair else (at, name)

    def lead(self) -> Record | None:
        """By which task the lane competes with others: the best of those that are the first of
        keys that may go on, so that what is urgent is not kept waiting by the turn of a key that is
        not.
        """
        firsts = [self.tasks[key][0] for key in self.came if self.tasks[key]]
        # Of equals those first whose gates are known: no others need to be looked at.
        firsts.sort(key=lambda one: (one.score, one.key not in self.fresh, one.id))
        return next((record for record in firsts if self.goes_on(record.key)), None)

    def goes_on(self, key: str) -> bool:
        """Whether a key may be given something, whenever its turn is. One that may not counts as
        looked at.
        """
        self.find_rooms(key)
        if not self.may_pass(key) and key not in self.seen:
            self.unread.remove(key)
            self.seen.append(key)
        return self.may_pass(key)

    def head(self) -> Record | None:
        """The task that is to be given next, of those that may be."""
        while True:
            one = min(self.standing, key=self.place, default=None)
            if self.unread and (one is None or self.begin(self.unread[0]) < self.place(one)):
                self.look(self.unread.pop(0))
            elif one is None:
                return None
            elif self.may_pass(one) and self.tasks[one]:
                self.turn = one
                return self.tasks[one][0]
            else:
                self.standing.remove(one)

    def look(self, key: str) -> None:
        """Lets a key stand in line, and finds out what it may pass."""
        self.seen.append(key)
        self.standing.append(key)
        self.find_rooms(key)

    def find_rooms(self, key: str) -> None:
        """Finds out how many of a key may pass its gates, once in a claim."""
        for limit in self.limits(key):
            if limit[0] not in self.rooms:
                self.rooms[limit[0]] = room(self.model, limit)
        if f"@{key}" in self.model.slowed and f"@{key}" not in self.rooms:
            self.rooms[f"@{key}"] = recovered(self.model, f"@{key}")

    def limits(self, key: str) -> list[LimitWords]:
        """The limits of a key."""
        rules = self.rules["own"].get(key, self.rules["each"])
        return [(f"{scope}@{key}", rate, per, most) for scope, rate, per, most in rules]

    def gates(self, key: str) -> list[str]:
        """What a task of a key passes."""
        found = [limit[0] for limit in self.limits(key)]
        return [*found, f"@{key}"] if f"@{key}" in self.rooms else found

    def may_pass(self, key: str) -> bool:
        """Whether one more task of a key may."""
        return all(self.rooms[gate] >= 1 for gate in self.gates(key))

    def pick(self) -> None:
        """The head was picked."""
        key, moved = self.turn, 0
        at, _ = self.place(key)
        if self.fair:
            moved = self.round.move(key, at, self.step(key), self.rules["step"])
        self.picked[key].append((self.tasks[key].pop(0).id, at, moved))
        self.fresh.add(key)
        for gate in self.gates(key):
            self.rooms[gate] -= 1
        if not self.tasks[key] and not self.fair:
            self.standing.remove(key)

    def pass_over(self) -> None:
        """The head is not picked; the next one of its key may be."""
        key = self.turn
        self.tasks[key].pop(0)
        self.fresh.add(key)
        if not self.tasks[key] and not self.fair:
            self.standing.remove(key)

    def end(self, given: Collection[str]) -> None:
        """What was given has passed the gates of its key; what was held back costs it no turn."""
        for key in self.seen:
            passed = [at for task, at, _ in self.picked[key] if task in given]
            self.count(key, len(passed))
            if self.fair:
                back = sum(moved for task, _, moved in self.picked[key] if task not in given)
                self.round.at |= {key: self.round.at[key] - back} if back else {}
                self.round.served = max([self.round.served, *passed])

    def shut_all(self) -> None:
        """The keys that were looked at have no turns for a while where nothing may pass."""
        for key in self.seen:
            self.shut(key)

    def count(self, key: str, number: int) -> None:
        """So many tasks of a key have passed its gates."""
        slow = self.model.slowed.get(f"@{key}")
        for limit in self.limits(key) if number else ():
            count_begun(self.model, limit, number)
        if number and slow is not None:
            slow.count(self.model.now_ms, number)

    def shut(self, key: str) -> None:
        """Gives a key no turns for a while, where nothing of it may pass."""
        opens = [opens_at(self.model, limit) for limit in self.limits(key)]
        if f"@{key}" in self.model.slowed and recovered(self.model, f"@{key}") < 1:
            opens.append(self.model.slowed[f"@{key}"].opens_ms(self.model.now_ms))
        until = max((at for at in opens if at is not None), default=None)
        if until is None:
            return
        self.line.shut[key], self.line.rules = until, self.rules["name"]
        if until == math.inf:
            self.model.crowds.keys.add(key)
        else:
            known = self.model.wakes.get(str(self.number), until)
            self.model.wakes[str(self.number)] = int(min(known, until))


def open_due(model: Model, number: int, rules: str = "") -> None:
    """Gives the keys their turns again whose time has come, or that other rules have shut."""
    line = model.lines.get(number, Line())
    if not line.shut:
        return
    if rules and line.rules != rules:
        line.shut, line.rules = dict.fromkeys(line.shut, 0.0), rules
    due = sorted((at, key) for key, at in line.shut.items() if at <= model.now_ms)
    for _, key in due[:MOST]:
        del line.shut[key]


def wake_lane(model: Model, number: int) -> None:
    """The time of keys of a lane has come; it is woken again when that of the next has."""
    open_due(model, number)
    following = min(model.lines.get(number, Line()).shut.values(), default=math.inf)
    if following < math.inf:
        model.wakes[str(number)] = int(following)


def let_in(model: Model, record: Record) -> None:
    """A task leaves the hand, and is not completed: who waits for its place, or for it to try a
    breaker, is answered at the end of the call, see answer_freed, or by the promoter.
    """
    if record.in_hand:
        model.wakes |= dict.fromkeys(model.crowds.types, 0)
        model.crowds.types.clear()
        probes = {type: breaker.probe for type, breaker in model.breakers.items()}
        mine = [type for type, probe in probes.items() if probe == (record.id, record.token)]
        model.wakes |= dict.fromkeys(mine, 0)
        for number in leave_hand(model, record):
            model.wakes[str(number)] = 0


def leave_hand(model: Model, record: Record) -> set[int]:
    """A task leaves the hand; the lanes in which its key has its turns again."""
    if not record.key or record.key not in model.crowds.keys:
        return set()
    model.crowds.keys.discard(record.key)
    lines = [(number, line) for number, line in model.lines.items() if record.key in line.shut]
    for _, line in lines:
        del line.shut[record.key]
    return {number for number, _ in lines}


def key_is_open(model: Model, number: int, rules: KeyRules) -> bool:
    """Whether some key of a lane may be given a turn now."""
    return Turning(model, number, rules, (Round(model), {})).head() is not None
