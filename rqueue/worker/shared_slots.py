"""The slots of one process, shared by several queues in strict order or by weight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.worker.slots import Slots


# Free slots are assigned one by one, so one claim is for at most this many.
MAX_COUNTED_SLOTS = 500
# A claim that takes longer than this does not keep other queues from claiming.
CLAIM_TIMEOUT_SEC = 0.5


class SharedSlots:
    """How many tasks run at the same time, and which queue may claim for a free slot.

    `weights` has one number for each queue; without weights the queues are served in strict order.
    """

    def __init__(self, size: int, weights: Sequence[int] = ()) -> None:
        self.size = size
        self.shares = [QueueShare(weight) for weight in weights]
        self.members: list[Slots] = []
        self.taken = 0
        # When two tasks last ran at the same time.
        self.last_overlap_at = float("-inf")

    def add(self, member: Slots) -> None:
        """Adds a queue's slots, in the order of the weights."""
        self.members.append(member)
        if len(self.members) > len(self.shares):
            self.shares.append(QueueShare())

    def fill(self) -> None:
        """Starts ready tasks while there are free slots, each queue by its share."""
        first, *others = self.members
        while self.taken < self.size and (first.ready or any(other.ready for other in others)):
            member = first if not others else self.next()
            self.taken += 1
            member.start()
            if self.taken > 1:
                self.last_overlap_at = time.monotonic()

    def next(self) -> Slots:
        """Chooses the queue that fills the next free slot, and counts it."""
        ready = [at for at, member in enumerate(self.members) if member.ready]
        at = next_share(ready, self.shares)
        count_start(at, self.shares)
        return self.members[at]

    def finished(self, member: Slots) -> None:
        """Frees the slot of a task that has ended: starts the next one and notifies the other
        queues.
        """
        self.taken -= 1
        self.fill()
        self.notify_others(member)

    def exclusive_since(self, began: float) -> bool:
        """Whether nothing has run beside a task that began then."""
        return began > self.last_overlap_at

    @property
    def free(self) -> int:
        """Slots that are neither taken nor reserved."""
        return max(self.size - sum(one.taken for one in self.members), 0)

    @property
    def all_stuck(self) -> bool:
        """Whether every slot is held by code that does not stop."""
        return sum(len(one.stuck) for one in self.members) >= self.size

    def capacity(self, member: Slots, prefetch: int) -> int:
        """How many tasks a queue may claim: its share of the free slots, and those that it would
        start within a moment.
        """
        if len(self.members) == 1:
            return max(self.size + prefetch - member.taken, 0)
        free = min(self.free, MAX_COUNTED_SLOTS)
        at = self.members.index(member)
        return claimable(at, self.shares, free, max(prefetch - len(member.ready), 0))

    def set_work(self, member: Slots, *, more: bool) -> None:
        """Records whether a queue may have more tasks. If not, the other queues may claim its
        share.
        """
        at = self.members.index(member)
        if more:
            set_active(at, self.shares)
        else:
            set_idle(at, self.shares)
            self.notify_others(member)

    @contextmanager
    def claiming(self, member: Slots) -> Iterator[None]:
        """Wraps a queue's claim: a claim that is not answered in time reserves no slots."""
        if len(self.members) == 1:
            yield
            return
        late = asyncio.get_running_loop().call_later(
            CLAIM_TIMEOUT_SEC, self.set_unreachable, member
        )
        try:
            yield
            self.shares[self.members.index(member)].reachable = True
        finally:
            late.cancel()

    def set_unreachable(self, member: Slots) -> None:
        """Records that a queue's Redis does not answer: other queues may claim its share until it
        does.
        """
        set_unreachable(self.members.index(member), self.shares)
        self.notify_others(member)

    def retire(self, member: Slots) -> None:
        """Records that a queue claims no more: its share goes to the others."""
        retire(self.members.index(member), self.shares)
        self.notify_others(member)

    def notify_others(self, member: Slots) -> None:
        """Notifies the other queues of free slots."""
        for other in self.members:
            if other is not member:
                other.on_free_slot()


@dataclass(slots=True)
class QueueShare:
    """The share of one queue: its weight (0 in strict order), whether it may have work, its used
    share (tasks divided by weight), whether its Redis answers, and whether it claims no more.
    """

    weight: int = 0
    has_work: bool = True
    used: float = 0.0
    reachable: bool = True
    retired: bool = False


def claimable(mine: int, shares: Sequence[QueueShare], free: int, prefetch: int = 0) -> int:
    """How many tasks the queue at `mine` may claim: its share of the free slots plus `prefetch`.

    In strict order it is none while an earlier queue may have work. By weight each free slot goes
    to the queue with the least used share, so that over time each gets tasks by its weight,
    whatever the number of slots. A queue without work reserves nothing.
    """
    if not shares[mine].weight:
        waits = any(share.has_work for share in shares[:mine])
        return 0 if waits else free + prefetch
    rivals = [at for at, share in enumerate(shares) if share.has_work or at == mine]
    if len(rivals) == 1:
        return free + prefetch
    used = {at: shares[at].used for at in rivals}
    given = 0
    for _ in range(free):
        at = min(rivals, key=lambda one: (used[one], one))
        used[at] += 1 / shares[at].weight
        given += at == mine
    return given + prefetch


def next_share(ready: Sequence[int], shares: Sequence[QueueShare]) -> int:
    """The queue that fills the next free slot, of those that have a task ready."""
    return min(ready, key=lambda at: (shares[at].used, at))


def count_start(mine: int, shares: Sequence[QueueShare]) -> None:
    """Counts a slot that the queue at `mine` has filled."""
    share = shares[mine]
    if share.weight:
        share.used += 1 / share.weight


def set_idle(mine: int, shares: Sequence[QueueShare]) -> None:
    """Records that the queue at `mine` has no work."""
    shares[mine].has_work = False


def set_unreachable(mine: int, shares: Sequence[QueueShare]) -> None:
    """Records that the Redis of the queue at `mine` does not answer: no queue waits for it until it
    does.
    """
    shares[mine].reachable = False
    set_idle(mine, shares)


def retire(mine: int, shares: Sequence[QueueShare]) -> None:
    """Records that the queue at `mine` claims no more: no queue waits for it again."""
    shares[mine].retired = True
    set_idle(mine, shares)


def set_active(mine: int, shares: Sequence[QueueShare]) -> None:
    """Records that the queue at `mine` may have work. The share it did not use while it had none is
    not carried over, since that would block the other queues.
    """
    share = shares[mine]
    if share.has_work or not share.reachable or share.retired:
        return
    others = [other.used for at, other in enumerate(shares) if at != mine and other.has_work]
    share.has_work, share.used = True, max([share.used, *([min(others)] if others else [])])
