"""Goes through all tasks, indexes and the stream of a shard, a page at a time, and
repairs inconsistencies.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.store.lanes import read_lanes
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


LOG = logging.getLogger("rqueue.scheduler")
TASK = "task"
# Bounded steps of a kind per tick; the next tick continues.
STEPS = 20
START = "0"
# Items per page: each is read by itself, and a page stops the server for a few milliseconds.
PAGE = 250
# A task may have thousands of dependencies: a few of them are checked each time, chosen at random.
DEPENDENCY_LIMIT = 8


class Names(NamedTuple):
    """A page of key names after the root; the cursor is START at the end."""

    cursor: str
    names: list[str]


class Repairs(NamedTuple):
    """The cursor to continue with, and how many items were repaired."""

    cursor: str
    number: int


async def walk(
    shard: Shard, kinds: Iterable[str], cursor: str = START, *, limit: int = PAGE
) -> Names:
    """A page of the shard's keys of these kinds."""
    args: dict[str, Argument] = {"kinds": json.dumps(list(kinds)), "cursor": cursor, "limit": limit}
    following, *found = ok("repair/walk", "", await shard.run("repair/walk", args))
    return Names(text(following), [text(name) for name in found])


async def mend(shard: Shard, tasks: Sequence[str]) -> int:
    """Puts tasks back into the indexes of their states; how many were missing in one."""
    rows = [(task,) for task in tasks]
    reply = await shard.run("repair/mend", {"parents": DEPENDENCY_LIMIT}, rows)
    return int(ok("repair/mend", "", reply)[0])


async def prune(shard: Shard, key: str, cursor: str = START, *, limit: int = PAGE) -> Repairs:
    """Removes from a page of an index the tasks that do not belong there."""
    args: dict[str, Argument] = {
        "index": key.removeprefix(shard.root),
        "cursor": cursor,
        "limit": limit,
    }
    following, number = ok("repair/prune", "", await shard.run("repair/prune", args))
    return Repairs(text(following), int(number))


async def sweep(shard: Shard, after: str = "", *, limit: int = PAGE) -> Repairs:
    """Removes from a page of the stream entries and leases that are not their task's;
    "" at the end.
    """
    args: dict[str, Argument] = {"from": f"({after}" if after else "-", "limit": limit}
    last, number = ok("repair/sweep", "", await shard.run("repair/sweep", args))
    return Repairs(text(last), int(number))


async def orphans(shard: Shard, *, limit: int = PAGE) -> list[str]:
    """Some of the tasks that a claim found without their stream entry."""
    key = shard.keys.orphans()
    found: Any = await shard.runner.connection.call(
        lambda client: client.srandmember(key, limit), what="orphans"
    )
    return [text(task) for task in found]


@dataclass(slots=True)
class Swept:
    """What one tick repaired: tasks missing in an index, members and entries without a task."""

    mended: int = 0
    pruned: int = 0
    entries: int = 0

    @property
    def repaired(self) -> int:
        """All repairs; 0 unless a crash interrupted a move."""
        return self.mended + self.pruned + self.entries


class Sweeper:
    """Goes through tasks, indexes and stream again and again, a part per tick. Any number may run:
    each page is checked and repaired by one call, so no task is seen in the middle of a move.
    """

    name = "sweeper"
    interval_sec = 30.0

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.entry = ""
        self.index = START
        self.indexes: list[str] = []
        self.cursor = START

    async def tick(self) -> Swept:
        """Sweeps the next part."""
        swept = Swept()
        swept.mended += await mend(self.shard, await orphans(self.shard))
        await self.sweep_entries(swept)
        await self.sweep_indexes(swept)
        await self.sweep_tasks(swept)
        if swept.repaired:
            LOG.warning(
                "%d inconsistencies repaired",
                swept.repaired,
                extra={"mended": swept.mended, "pruned": swept.pruned, "entries": swept.entries},
            )
        return swept

    async def sweep_entries(self, swept: Swept) -> None:
        """The stream: entries that are not their task's, and leases of tasks that are
        not leased.
        """
        for _ in range(STEPS):
            self.entry, number = await sweep(self.shard, self.entry)
            swept.entries += number
            if not self.entry:
                break

    async def sweep_indexes(self, swept: Swept) -> None:
        """The sorted sets: members that do not belong there."""
        for step in range(STEPS):
            if not self.indexes:
                if step:
                    break
                self.indexes = await self.all_indexes()
            self.index, number = await prune(self.shard, self.indexes[-1], self.index)
            swept.pruned += number
            if self.index == START:
                self.indexes.pop()

    async def all_indexes(self) -> list[str]:
        """The sorted sets that index a state."""
        keys = self.shard.keys
        lanes = (await read_lanes(self.shard)).numbers
        fixed = [keys.delayed(), keys.blocked(), keys.dead(), keys.deadlines(), keys.deliveries()]
        found = [*fixed, *map(keys.lane, lanes.values())]
        for lane, number in lanes.items():
            if lane.keyed:
                found += [keys.heads(number), keys.turns(number), keys.closed_tenants(number)]
        return found

    async def sweep_tasks(self, swept: Swept) -> None:
        """The tasks: those that an index misses."""
        for _ in range(STEPS):
            page = await walk(self.shard, (TASK,), self.cursor)
            self.cursor = page.cursor
            if page.names:
                tasks = [name.partition(":")[2] for name in page.names]
                swept.mended += await mend(self.shard, tasks)
            if self.cursor == START:
                break
