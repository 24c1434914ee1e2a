"""What a claim may be given next, in exact order, past all gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rqueue.budgets.accounts import DAY
from rqueue.task.limits import QUEUE
from tests.reference import purses
from tests.reference.gating import is_paused, open_places, recovered
from tests.reference.limits import bearing, open_rooms, pass_one
from tests.reference.rounds import Round, line_up
from tests.reference.turning import KeyRules, Turning

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.model import Model
    from tests.reference.purses import Purse
    from tests.reference.records import LimitWords, Record

MINUTE_MS = 60_000
DRAIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a lease is for and in which conversation, whether the tasks are started, how many of
    them begin at once, and which limits stand before them, also before those of a key.
    """

    waiter: str
    consumer: str
    bits: str
    started: bool = False
    begin: int | None = None
    limits: tuple[LimitWords, ...] = ()
    keys: Mapping[int, KeyRules] = field(default_factory=dict)


class Picking:
    """One look of a claim at the lanes that it may serve."""

    def __init__(self, model: Model, who: Who, served: Mapping[int, Lane]) -> None:
        self.model, self.who, self.served = model, who, served
        self.turnings, self.round = dict[int, Turning](), Round(model)
        self.live: dict[int, Lane] = {}
        self.rivals = False
        self.heads: dict[int, Record | None] = {}
        self.picks: list[Record] = []
        self.purse: Purse | None = None
        self.dear: list[Record] = []

    def pick(self, n: int) -> list[Record]:
        """The heads of the lanes that are this worker's next."""
        model, who = self.model, self.who
        if (
            n < 1
            or who.waiter in model.drained
            or runs_exclusively(model, who.consumer, self.served)
        ):
            return []
        self.open(n)
        while len(self.picks) < n:
            record = self.best()
            verdict = "drain" if record is None else self.verdict(record)
            if record is None or verdict == "drain":
                break
            if verdict == "skip":
                del self.live[record.lane]
                continue
            if verdict != "next":
                self.take(record)
            if verdict == "run":
                # A task that was lost once runs alone: nothing is given beside it.
                break
            if len(self.picks) < n:
                self.look_on(record.lane)
        return self.picks

    def open(self, n: int) -> None:
        """Finds the lanes of which something may pass, and how much."""
        model, who = self.model, self.who
        unpaused = {n: lane for n, lane in self.served.items() if not is_paused(model, n, lane)}
        self.places = open_places(model, unpaused)
        limits = bearing(who.limits, {lane.type for lane in unpaused.values()})
        self.rooms = open_rooms(model, limits)
        self.live = {n: lane for n, lane in unpaused.items() if self.admits(lane)}
        self.purse = purses.purse_of(model, who.consumer)
        if self.purse is not None:
            self.live = purses.affordable(model, self.purse, self.live, n)
        line_up(model)
        doors: dict[str, float] = {}
        for number in sorted(self.live.keys() & who.keys.keys()):
            self.turnings[number] = Turning(model, number, who.keys[number], (self.round, doors))
            self.heads[number] = self.turnings[number].head()
        self.rivals = bool(self.live.keys() - self.turnings.keys())

    def look_on(self, lane: int) -> None:
        """Finds the next heads after one of a lane of keys was looked at: where keys have turns,
        those of all such lanes.
        """
        if lane in self.turnings:
            for number in self.group() if self.turnings[lane].fair else [lane]:
                self.heads[number] = self.turnings[number].head()

    def group(self) -> list[int]:
        """The lanes whose keys take turns with each other: those of which something may pass."""
        found = [n for n in self.live if n in self.turnings and self.turnings[n].fair]
        return [n for n in found if self.admits(self.live[n])]

    def admits(self, lane: Lane) -> bool:
        """Whether one more task of a lane may pass its gates."""
        rooms = self.rooms
        return min(self.places[lane.type], rooms.get(lane.type, 1), rooms.get(QUEUE, 1)) >= 1

    def best(self) -> Record | None:
        """The best of the lanes' heads by effective priority now. Lanes whose keys have turns are
        as one, give the first task of the key whose turn it is, and compete by the best that keys
        have that may go on.
        """
        plain = {n: lane for n, lane in self.live.items() if n not in self.turnings}
        passed = [*self.picks, *self.dear]
        heads = [record for record in in_order(self.model, plain) if record not in passed][:1]
        keyed = {n: head for n, head in self.heads.items() if n in self.live and head is not None}
        heads += [head for n, head in keyed.items() if not self.turnings[n].fair]
        by_turns = [keyed[n] for n in self.group() if n in keyed]
        found = [(self.effective(record), record.id) for record in heads]
        if by_turns:
            head = min(by_turns, key=self.in_turn)
            leads = [self.turnings[one.lane].lead() for one in by_turns if self.rivals]
            values = [self.effective(one) for one in (head, *leads) if one is not None]
            found.append((min(values), head.id))
        return self.model.tasks[min(found)[1]] if found else None

    def in_turn(self, head: Record) -> tuple[object, ...]:
        """By what the heads of lanes come whose keys have turns: how far those have come, the name
        of the key; of one key by priority.
        """
        return *self.turnings[head.lane].place(head.key), self.effective(head), head.id

    def effective(self, record: Record) -> float:
        """The effective priority of a task of the lanes."""
        return effective(self.model, record, self.served[record.lane])

    def verdict(self, record: Record) -> Literal["pick", "run", "drain", "skip", "next"]:
        """Whether a head is picked, alone or not, or another task's or key's is looked at, or hands
        are kept free, or its lane left.
        """
        lane = self.live[record.lane]
        if not self.admits(lane):
            return "skip"
        if record.lane in self.turnings and not self.turnings[record.lane].may_pass(record.key):
            return "next"
        if self.is_dear(record):
            return self.passed_by(record)
        found: Literal["pick", "run", "drain", "skip"] = "pick"
        if lane.exclusive:
            picked = len(self.picks)
            found = may_run_alone(self.model, self.who.consumer, record.lane, picked=picked)
        if self.purse is not None and found in ("pick", "run"):
            self.purse.left -= record.price[0]
        return found

    @property
    def poor(self) -> bool:
        """Whether the worker's own budget kept something from it."""
        return self.purse is not None and self.purse.short and self.purse.account != DAY

    def is_dear(self, record: Record) -> bool:
        """Whether a head cannot be paid."""
        purse = self.purse
        tight = purse is not None and purse.tight and self.live[record.lane].cost
        return bool(purse is not None and tight and record.price[0] > purse.left)

    def passed_by(self, record: Record) -> Literal["skip", "next"]:
        """What follows where a head cannot be paid: another may be, but after a hundred no more of
        the lane is looked at.
        """
        if self.purse is not None:
            purses.run_short(self.model, self.purse)
        self.dear.append(record)
        if record.lane in self.turnings:
            self.turnings[record.lane].pass_over()
        dear = sum(one.lane == record.lane for one in self.dear)
        return "next" if dear < purses.DEAR else "skip"

    def take(self, record: Record) -> None:
        """A head is picked."""
        type = self.live[record.lane].type
        self.picks.append(record)
        self.places[type] -= 1
        pass_one(self.rooms, type)
        if record.lane in self.turnings:
            self.turnings[record.lane].pick()

    def end(self, given: Sequence[Record]) -> None:
        """Those of the picks were given. The gates of what was picked are looked at again: who
        waits beside one whose last place was taken is to be answered when it opens.
        """
        types = {self.served[record.lane].type for record in self.picks}
        open_rooms(self.model, bearing(self.who.limits, types))
        for type in types:
            recovered(self.model, type)
        for turning in self.turnings.values():
            turning.end({record.id for record in given})
        self.round.end([n for n, one in self.turnings.items() if one.fair])
        # What was given of all lanes is counted before: a key may be in several.
        for turning in self.turnings.values():
            turning.shut_all()
        line_up(self.model)


def may_run_alone(
    model: Model, consumer: str, lane: int, *, picked: int
) -> Literal["run", "drain", "skip"]:
    """Whether a task that runs alone may be picked now, or hands are kept free for it."""
    if picked == 0 and not model.in_hand(consumer):
        model.draining.pop(lane, None)
        return "run"
    until_ms, by = model.draining.get(lane, (0, consumer))
    if by != consumer and until_ms > model.now_ms:
        return "skip"
    model.draining[lane] = (model.now_ms + DRAIN_MS, consumer)
    return "drain"


def runs_exclusively(model: Model, consumer: str, served: Mapping[int, Lane]) -> bool:
    """Whether the worker has a task in hand that must run alone; what it had is forgotten."""
    if consumer not in model.exclusive and not any(lane.exclusive for lane in served.values()):
        return False
    record = model.find(model.exclusive.get(consumer, ""))
    if record is not None and record.in_hand and record.owner == consumer:
        return True
    model.exclusive.pop(consumer, None)
    return False


def in_order(model: Model, lanes: dict[int, Lane]) -> list[Record]:
    """The READY tasks of these lanes by effective priority now."""
    ready = [record for record in model.ready() if record.lane in lanes]
    return sorted(ready, key=lambda r: (effective(model, r, lanes[r.lane]), r.id))


def effective(model: Model, record: Record, lane: Lane) -> float:
    """The priority that a written score means now."""
    return record.score - lane.micro_rate * (model.now_ms / MINUTE_MS)
