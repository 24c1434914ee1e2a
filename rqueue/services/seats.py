"""The slots of one process: several queues may share them, in turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rqueue.policy import turns
from rqueue.policy.turns import Turn

if TYPE_CHECKING:
    from rqueue.services.slots import Slots

# Turns are looked at one by one; a claim asks for no more at once.
MOST_TURNS = 500
# A claim whose answer takes longer than this keeps nobody else from claiming.
PATIENCE_SEC = 0.5


class Seats:
    """How many tasks run at once, and whose turn it is to claim for them.

    `weights` has one number for each queue that shares them; without any the queues are served in
    strict order.
    """

    def __init__(self, size: int, weights: Sequence[int] = ()) -> None:
        self.size = size
        self.turns = [Turn(weight) for weight in weights]
        self.members: list[Slots] = []
        self.taken = 0
        # When two last ran at once.
        self.crowded_at = float("-inf")

    def join(self, member: Slots) -> None:
        """Takes a member, in the order of the weights."""
        self.members.append(member)
        if len(self.members) > len(self.turns):
            self.turns.append(Turn())

    def fill(self) -> None:
        """Starts what is ready, each member in its turn, as far as there are free slots."""
        first, *others = self.members
        while self.taken < self.size and (first.ready or any(other.ready for other in others)):
            member = first if not others else self.next()
            self.taken += 1
            member.start()
            if self.taken > 1:
                self.crowded_at = time.monotonic()

    def next(self) -> Slots:
        """Takes the turn of the member whose it is, among those that have a task ready."""
        ready = [at for at, member in enumerate(self.members) if member.ready]
        at = turns.next_of(ready, self.turns)
        turns.take(at, self.turns)
        return self.members[at]

    def leave(self, member: Slots) -> None:
        """A member's task has ended: another starts, and who may claim is told."""
        self.taken -= 1
        self.fill()
        self.tell(member)

    def alone_since(self, began: float) -> bool:
        """Whether nothing has run beside what began then."""
        return began > self.crowded_at

    @property
    def free(self) -> int:
        """Slots for which nothing has been claimed yet."""
        return max(self.size - sum(one.taken for one in self.members), 0)

    @property
    def lost(self) -> bool:
        """Whether every slot is held by code that does not stop."""
        return sum(len(one.stuck) for one in self.members) >= self.size

    def room(self, member: Slots, ahead: int) -> int:
        """How many tasks a member may claim: for the slots that are free and its turn, and those
        that it would start within a moment.
        """
        if len(self.members) == 1:
            return max(self.size + ahead - member.taken, 0)
        free = min(self.free, MOST_TURNS)
        at = self.members.index(member)
        return turns.room_of(at, self.turns, free, max(ahead - len(member.ready), 0))

    def wants(self, member: Slots, *, more: bool) -> None:
        """Whether a member's queue may have more for it; where it has not, others may claim."""
        at = self.members.index(member)
        if more:
            turns.wake(at, self.turns)
        else:
            turns.rest(at, self.turns)
            self.tell(member)

    @contextmanager
    def asking(self, member: Slots) -> Iterator[None]:
        """Around a member's claim: one that is not answered soon holds no seats."""
        if len(self.members) == 1:
            yield
            return
        late = asyncio.get_running_loop().call_later(PATIENCE_SEC, self.lose, member)
        try:
            yield
            self.turns[self.members.index(member)].reached = True
        finally:
            late.cancel()

    def lose(self, member: Slots) -> None:
        """A member's server does not answer: others may claim until it does."""
        turns.lose(self.members.index(member), self.turns)
        self.tell(member)

    def retire(self, member: Slots) -> None:
        """A member claims no more: its turns are the others'."""
        turns.retire(self.members.index(member), self.turns)
        self.tell(member)

    def tell(self, member: Slots) -> None:
        """What a member left is there for the others."""
        for other in self.members:
            if other is not member:
                other.roomy()
