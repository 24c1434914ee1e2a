"""The orphan sweep: every task is in the index its state names, and every index has its tasks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.store.lanes import read_lanes
from rqueue.store.sweeping import START, mend, orphans, prune, sweep, walk

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.scheduler")

# A tick ends after so many bounded steps of a kind: the next one goes on.
STEPS = 20
TASK = "task"


@dataclass(slots=True)
class Swept:
    """What one tick put right: tasks that an index missed, members and entries without a task."""

    mended: int = 0
    pruned: int = 0
    entries: int = 0

    @property
    def repaired(self) -> int:
        """All of it; nothing where no crash tore a script apart."""
        return self.mended + self.pruned + self.entries


class Sweeper:
    """Goes through tasks, indexes and stream again and again, a part at each tick. Any number may
    run: each page is judged and put right by one script, so nothing is seen in the middle of a
    move.
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
        """Sweeps the next part of everything."""
        swept = Swept()
        swept.mended += await mend(self.shard, await orphans(self.shard))
        await self.sweep_entries(swept)
        await self.sweep_indexes(swept)
        await self.sweep_tasks(swept)
        if swept.repaired:
            log.warning(
                "%d things repaired that no fault-free run leaves",
                swept.repaired,
                extra={"mended": swept.mended, "pruned": swept.pruned, "entries": swept.entries},
            )
        return swept

    async def sweep_entries(self, swept: Swept) -> None:
        """The stream: entries that are not their task's, leases on what is not in hand."""
        for _ in range(STEPS):
            self.entry, number = await sweep(self.shard, self.entry)
            swept.entries += number
            if not self.entry:
                break

    async def sweep_indexes(self, swept: Swept) -> None:
        """The sorted sets: members that are not what the set lists."""
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
        """Every sorted set that a state names."""
        keys = self.shard.keys
        lanes = (await read_lanes(self.shard)).numbers
        fixed = [keys.delayed(), keys.blocked(), keys.dead(), keys.deadlines(), keys.handoffs()]
        found = [*fixed, *map(keys.lane, lanes.values())]
        for lane, number in lanes.items():
            if lane.keyed:
                found += [keys.heads(number), keys.turns(number), keys.shut(number)]
        return found

    async def sweep_tasks(self, swept: Swept) -> None:
        """The tasks themselves: those that an index misses."""
        for _ in range(STEPS):
            page = await walk(self.shard, (TASK,), self.cursor)
            self.cursor = page.cursor
            if page.names:
                tasks = [name.partition(":")[2] for name in page.names]
                swept.mended += await mend(self.shard, tasks)
            if self.cursor == START:
                break
