"""Moves what time moves: due retries, hand-offs not taken, deadlines, unfinished fan-outs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.store import passage, tasks
from rqueue.store.queue import answer_all

if TYPE_CHECKING:
    from rqueue.store.passage import Step
    from rqueue.store.shard import Shard

# A tick ends after so many bounded steps of a kind: the next one goes on.
STEPS = 50


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one tick moved, and when the next is due or a gate opens (server ms, 0 for none)."""

    promoted: int
    recalled: int
    expired: int
    next_ms: int


class Promoter:
    """Makes READY what has waited long enough. Any number may run: each step is one script."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    async def tick(self) -> Promoted:
        """Moves all that is due now, in bounded steps."""
        recalled, _ = await self.drain(passage.recall)
        expired, _ = await self.drain(passage.expire)
        promoted, next_ms = await self.drain(passage.promote)
        await self.drain(passage.unblock)
        await tasks.cancel(self.shard, [], reason="")
        # Where a call said that more could be answered, and as a net for what was missed.
        opens_ms = await answer_all(self.shard)
        # Who was answered just now may have taken the last place at a gate that opens soon.
        soonest = min((at for at in (next_ms, opens_ms) if at), default=0)
        return Promoted(promoted, recalled, expired, soonest)

    async def drain(self, step: Callable[[Shard], Awaitable[Step]]) -> tuple[int, int]:
        """Takes one kind of step until there is no more of it; what it moved, and what is next."""
        moved = 0
        for _ in range(STEPS):
            done = await step(self.shard)
            moved += done.moved
            if not done.more:
                break
        return moved, done.next_ms
