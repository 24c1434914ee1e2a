"""Deletes what workers that are gone have left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rqueue.maintenance.sweeper import PAGE, START, prune, walk
from rqueue.store.replies import ok

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard

# Deletes sinks without a notifier, see notices/store.py; returns how many.
Forget: TypeAlias = "Callable[[], Awaitable[int]]"

DAY_MS = 86_400_000
# Bounded steps of a kind per tick; the next tick continues.
STEPS = 20
LEFT_BEHIND = ("waiter", "waiting", "profiles", "turned")
# Sorted sets of tasks that may be many: those of a tag, of a tenant, of a tenant's leases.
INDEXES = ("tag", "keyed", "hand")


async def dismiss(shard: Shard, *, silent_ms: int, limit: int = PAGE) -> int:
    """Deletes workers that were silent for so long and hold no lease; how many."""
    args: dict[str, Argument] = {"silent_ms": silent_ms, "limit": limit}
    return int(ok("worker/dismiss", "", await shard.run("worker/dismiss", args))[0])


async def tidy(shard: Shard, names: Sequence[str], *, silent_ms: int) -> int:
    """Deletes what is left of claims that are over, among the named keys; how many."""
    rows = [(name,) for name in names]
    reply = await shard.run("repair/tidy", {"silent_ms": silent_ms}, rows)
    return int(ok("repair/tidy", "", reply)[0])


@dataclass(slots=True)
class Cleared:
    """What one tick deleted: workers, parts of claims and of turns that are over, tasks in sets
    where they do not belong, sinks without a notifier.
    """

    workers: int = 0
    conversations: int = 0
    tagged: int = 0
    sinks: int = 0


class Janitor:
    """Goes through the keys of the shard again and again, a part per tick. Any number may run: the
    moves decide what is deleted.

    Lanes stay, also empty ones: a task knows its lane by number only, and one that returned to a
    deleted lane would never be claimed.
    """

    name = "janitor"
    interval_sec = 60.0

    def __init__(
        self, shard: Shard, *, silent_ms: int = DAY_MS, forget_sinks: Forget | None = None
    ) -> None:
        self.shard = shard
        self.silent_ms = silent_ms
        self.forget_sinks = forget_sinks
        self.cursor = START

    async def tick(self) -> Cleared:
        """Deletes sinks without a notifier and silent workers, and cleans the next part
        of the keys.
        """
        cleared = Cleared()
        if self.forget_sinks is not None:
            cleared.sinks = await self.forget_sinks()
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
        """Cleans these keys."""
        indexes = [name for name in names if name.partition(":")[0] in INDEXES]
        others = [name for name in names if name.partition(":")[0] not in INDEXES]
        if others:
            cleared.conversations += await tidy(self.shard, others, silent_ms=self.silent_ms)
        for name in indexes:
            cleared.tagged += await self.prune_all(self.shard.root + name)

    async def prune_all(self, key: str) -> int:
        """Removes tasks that are gone from a sorted set, page by page."""
        cursor, number = await prune(self.shard, key)
        while cursor != START:
            cursor, more = await prune(self.shard, key, cursor)
            number += more
        return number
