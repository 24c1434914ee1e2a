"""The context backend of a worker: stores what handlers report, and reads what earlier attempts
stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from rqueue.core.leases import HeldLease
from rqueue.core.notes import attach, note, step
from rqueue.core.reader import claimed_task
from rqueue.core.spawn import spawn
from rqueue.errors import BudgetExceeded, LeaseLost, TaskNotFound
from rqueue.task.ids import TaskId
from rqueue.worker.context import Suspended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rqueue.core.claim import Grant
    from rqueue.core.reader import Reader
    from rqueue.store.shard import Shard
    from rqueue.task.artifact import Artifact
    from rqueue.task.task import Note, Task
    from rqueue.worker.context.spawn import Spawner, SpawnRequest, Subtask, Wait
    from rqueue.worker.stats import WorkerStats


class StoreBackend:
    """Sends the requests of one attempt to Redis one after the other. Each note has a rising
    number, so that a repeated one is stored once. `exceed` is called when the run exceeds its
    budget.
    """

    def __init__(
        self, shard: Shard, reader: Reader, grant: Grant, stats: WorkerStats, *, spawner: Spawner
    ) -> None:
        self.shard = shard
        self.reader = reader
        self.grant = grant
        self.stats = stats
        self.spawner = spawner
        self.lock: asyncio.Lock | None = None
        self.seq = 0
        self.suspended = False
        self.model: str | None = None
        self.exceeded = False
        self.exceed: Callable[[], object] = lambda: None

    def claimed(self) -> Task:
        """The task as it was claimed."""
        return claimed_task(self.grant)

    async def note(self, report: Note) -> None:
        """Stores a note; a cost without a model counts for the model in use. Raises LeaseLost, and
        BudgetExceeded if the run costs too much.
        """
        if (
            self.model
            and not report.model
            and (report.usd or report.tokens_in or report.tokens_out)
        ):
            report = replace(report, model=self.model)
        try:
            async with self.call_lock():
                self.seq += 1
                await note(self.shard, self.held, report, seq=self.seq)
        except BudgetExceeded:
            self.stats.spent(self.claimed(), report.usd, report.model)
            self.exceeded = True
            self.exceed()
            raise
        except LeaseLost as error:
            if error.counted and report.usd:
                self.stats.spent(self.claimed(), report.usd, report.model)
            raise
        if report.usd:
            self.stats.spent(self.claimed(), report.usd, report.model)

    async def spawn(self, requests: Sequence[SpawnRequest], wait: Wait) -> list[Subtask]:
        """Spawns the tasks that do not exist yet and returns all requested ones; raises Suspended
        if the task has to wait for them.
        """
        drafts = await self.spawner.drafted(self.claimed(), requests)
        async with self.call_lock():
            # A concurrent call of the same handler has suspended the task.
            if self.suspended:
                raise Suspended
            if self.exceeded:
                raise BudgetExceeded(TaskId.from_ulid(self.grant.task))
            reply = await spawn(self.shard, self.held, drafts, wait=wait)
            if reply.suspended:
                self.suspended = True
                self.stats.suspended(self.claimed())
                raise Suspended
        return await self.spawner.subtasks(reply.tasks, wait)

    async def step(self, name: str, result: bytes = b"") -> bytes:
        """Stores the result of a step, or returns the stored one."""
        return await step(self.shard, self.held, name, result)

    async def attach(self, artifact: Artifact) -> None:
        """Records an artifact with the task."""
        await attach(self.shard, self.held, artifact)

    @property
    def held(self) -> HeldLease:
        """The lease of the attempt."""
        return HeldLease(self.grant.task, self.grant.token)

    def call_lock(self) -> asyncio.Lock:
        """The lock that a call holds until its reply has come; created at first use."""
        if self.lock is None:
            self.lock = asyncio.Lock()
        return self.lock

    async def current(self) -> Task:
        """The current state of the task."""
        (found,) = await self.reader.read([self.grant.task])
        if found is None:
            raise TaskNotFound(TaskId.from_ulid(self.grant.task))
        return found
