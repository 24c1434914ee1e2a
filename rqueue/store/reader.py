"""Reading tasks: what the store holds of one, turned into the model's Task."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault
from rqueue.model.ids import TaskId
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import ok
from rqueue.store.shard import BYTES
from rqueue.store.stored import Stored
from rqueue.store.values import UNREADABLE

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.model.task import Task
    from rqueue.store.runner import Reply
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.store")

# Tasks a call: of each there are up to ten keys to look at.
PAGE = 200
# So many warnings are remembered, not to repeat them: a task that stays is read often.
MEMORY = 10_000


class Reader:
    """Reads tasks of one shard. Lanes are remembered: a number never changes its meaning.

    Whatever is stored, one task stands in no other's way: a part that cannot be read is left out
    (see `Task.unreadable` and `damaged`), and one that has no state that we know is passed over.
    """

    def __init__(self, shard: Shard, *, lease_ms: int) -> None:
        self.shard = shard
        self.lease_ms = lease_ms
        self.lanes: dict[int, Lane] = {}
        self.warned: set[tuple[str, str]] = set()

    async def read(self, tasks: Sequence[str]) -> list[Task | None]:
        """The tasks of these ULIDs, None for those that are not there; each page one moment."""
        found: list[Task | None] = []
        while len(found) < len(tasks):
            found += await self.read_page(tasks[len(found) : len(found) + PAGE])
        return found

    async def read_page(self, page: Sequence[str]) -> list[Task | None]:
        """The first tasks of a page, as many as one call reads."""
        try:
            reply = await self.ask(page)
        except ScriptFault as fault:
            if "WRONGTYPE" not in str(fault.reply):
                raise
            if len(page) == 1:
                self.warn(page[0], "is passed over: a key of it has another type")
                return [None]
            return await self.read_page(page[: len(page) // 2])
        now_ms, *rows = ok("task/read", "", reply)
        seen = zip(page[: len(rows)], rows, strict=True)
        return [await self.task_of(task, row, int(now_ms)) for task, row in seen]

    async def ask(self, page: Sequence[str]) -> Reply:
        """One call of the script."""
        return await self.shard.run("task/read", {"limit": BYTES}, [(task,) for task in page])

    async def definition(self, task: str) -> bytes:
        """The bytes of a task's definition, as they are stored."""
        (_, row) = ok("task/read", "", await self.ask([task]))
        return bytes(row[1])

    async def task_of(self, task: str, row: list[Any], now_ms: int) -> Task | None:
        """One row of the read script as a Task."""
        if not row[0]:
            return None
        stored = Stored.of(row)
        number = stored.lane()
        lane = None if number is None else await self.lane(number)
        try:
            found = stored.task(TaskId.from_ulid(task), lane, now_ms=now_ms, lease_ms=self.lease_ms)
        except UNREADABLE as error:
            self.warn(task, f"is passed over: {type(error).__name__} in reading it")
            return None
        if found.damaged:
            self.warn(task, f"cannot be read whole, see {', '.join(found.damaged)}")
        return found

    async def lane(self, number: int) -> Lane | None:
        """The lane with a number, asked for once."""
        if number not in self.lanes:
            self.lanes = (await read_lanes(self.shard)).by_number()
        return self.lanes.get(number)

    def warn(self, task: str, fault: str) -> None:
        """Logs once what is wrong with a task."""
        if (task, fault) in self.warned:
            return
        if len(self.warned) >= MEMORY:
            self.warned.clear()
        self.warned.add((task, fault))
        log.warning("task %s %s", task, fault, extra={"task": task})
