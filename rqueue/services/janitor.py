"""Clears away what workers that are gone left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.store.sinks import forget
from rqueue.store.sweeping import PAGE, START, dismiss, prune, tidy, walk

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

DAY_MS = 86_400_000
# A tick ends after so many bounded steps of a kind: the next one goes on.
STEPS = 20
LEFT_BEHIND = ("waiter", "waiting", "profiles", "turned")
# Sorted sets of tasks of which there may be any number: those of a tag, of a key, of a key in hand.
INDEXES = ("tag", "keyed", "hand")


@dataclass(slots=True)
class Cleared:
    """What one tick cleared away: workers, parts of their conversations and of turns that are over,
    tasks in sets where they do not belong, sinks that nobody serves.
    """

    workers: int = 0
    conversations: int = 0
    tagged: int = 0
    sinks: int = 0


class Janitor:
    """Goes through the keys of the shard again and again, a part at each tick. Any number may
    run: what goes is decided inside the scripts.

    Lanes stay, empty ones too: a task knows its lane by number alone, and one that came back to a
    lane that is gone would never be claimed.
    """

    name = "janitor"
    interval_sec = 60.0

    def __init__(self, shard: Shard, *, silent_ms: int = DAY_MS, keep_ms: int = 7 * DAY_MS) -> None:
        self.shard = shard
        self.silent_ms = silent_ms
        self.keep_ms = keep_ms
        self.cursor = START

    async def tick(self) -> Cleared:
        """Forgets sinks that nobody serves, dismisses silent workers, and clears the next part of
        the keys.
        """
        cleared = Cleared(sinks=await forget(self.shard, silent_ms=self.keep_ms))
        for _ in range(STEPS):
            dismissed = await dismiss(self.shard, silent_ms=self.silent_ms)
            cleared.workers += dismissed
            if dismissed < PAGE:
                break
        for _ in range(STEPS):
            page = await walk(self.shard, (*LEFT_BEHIND, *INDEXES), self.cursor)
            self.cursor = page.cursor
            await self.clear(page.names, cleared)
            if self.cursor == START:
                break
        return cleared

    async def clear(self, names: list[str], cleared: Cleared) -> None:
        """Clears what is over among these keys."""
        indexes = [name for name in names if name.partition(":")[0] in INDEXES]
        others = [name for name in names if name.partition(":")[0] not in INDEXES]
        if others:
            cleared.conversations += await tidy(self.shard, others, silent_ms=self.silent_ms)
        for name in indexes:
            cleared.tagged += await self.prune_all(self.shard.root + name)

    async def prune_all(self, key: str) -> int:
        """Takes the tasks that are gone out of a sorted set, page after page."""
        cursor, number = await prune(self.shard, key)
        while cursor != START:
            cursor, more = await prune(self.shard, key, cursor)
            number += more
        return number
