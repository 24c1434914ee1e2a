"""Moves tasks whose time has come: retries, deliveries not started, deadlines,
unfinished fan-outs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.core import tasks, timers
from rqueue.core.counts import answer_all

if TYPE_CHECKING:
    from rqueue.core.timers import Step
    from rqueue.store.shard import Shard

# Bounded steps of a kind per tick; the next tick continues.
STEPS = 50


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one tick moved, and when the next task is due or a gate opens (server ms, 0
    for none).
    """

    promoted: int
    recalled: int
    expired: int
    next_ms: int


class Promoter:
    """Makes tasks READY whose time has come. Any number may run: each step is one call."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    async def tick(self) -> Promoted:
        """Moves all that is due now, in bounded steps."""
        recalled, _ = await self.drain(timers.recall)
        expired, _ = await self.drain(timers.expire)
        promoted, next_ms = await self.drain(timers.promote)
        await self.drain(timers.unblock)
        await tasks.cancel(self.shard, [], reason="")
        # For claims that a call could not answer, and as a safety net for missed ones.
        opens_ms = await answer_all(self.shard)
        # The claims answered just now may have closed a gate that opens soon.
        soonest = min((at for at in (next_ms, opens_ms) if at), default=0)
        return Promoted(promoted, recalled, expired, soonest)

    async def drain(self, step: Callable[[Shard], Awaitable[Step]]) -> tuple[int, int]:
        """Repeats one kind of step until there is no more; how many tasks it moved, and
        when the next is due.
        """
        moved = 0
        for _ in range(STEPS):
            done = await step(self.shard)
            moved += done.moved
            if not done.more:
                break
        return moved, done.next_ms
