"""Writes down what handlers say of their tasks, and reads what earlier attempts left."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from rqueue.context import Suspended
from rqueue.errors import BudgetExceeded, LeaseLost, TaskNotFound
from rqueue.model.ids import TaskId
from rqueue.store.artifacts import attach
from rqueue.store.leases import Held
from rqueue.store.notes import note
from rqueue.store.spawning import spawn
from rqueue.store.steps import step
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rqueue.model.artifact import Artifact
    from rqueue.model.note import Note
    from rqueue.model.subtask import Subtask, Wait, Wish
    from rqueue.model.task import Task
    from rqueue.services.ledger import Ledger
    from rqueue.services.spawner import Spawner
    from rqueue.store.claims import Grant
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard


class StoreScribe:
    """A context's way to the store. What one attempt says is sent one after the other; a note has a
    rising number, so that one sent again is not kept twice. `exceed` is called when the run is told
    that it costs too much.
    """

    def __init__(
        self, shard: Shard, reader: Reader, grant: Grant, ledger: Ledger, *, spawner: Spawner
    ) -> None:
        self.shard = shard
        self.reader = reader
        self.grant = grant
        self.ledger = ledger
        self.spawner = spawner
        self.lock: asyncio.Lock | None = None
        self.seq = 0
        self.suspended = False
        self.model: str | None = None
        self.exceeded = False
        self.exceed: Callable[[], object] = lambda: None

    def claimed(self) -> Task:
        """The task as it was claimed."""
        return claimed(self.grant)

    async def note(self, said: Note) -> None:
        """Keeps a note, a cost with the model that it names, or that is in use. Raises LeaseLost
        where the lease is no longer held, BudgetExceeded where the run costs too much.
        """
        if self.model and not said.model and (said.usd or said.tokens_in or said.tokens_out):
            said = replace(said, model=self.model)
        try:
            async with self.in_turn():
                self.seq += 1
                await note(self.shard, self.held, said, seq=self.seq)
        except BudgetExceeded:
            self.ledger.spent(self.claimed(), said.usd, said.model)
            self.exceeded = True
            self.exceed()
            raise
        except LeaseLost as error:
            if error.counted and said.usd:
                self.ledger.spent(self.claimed(), said.usd, said.model)
            raise
        if said.usd:
            self.ledger.spent(self.claimed(), said.usd, said.model)

    async def spawn(self, wishes: Sequence[Wish], wait: Wait) -> list[Subtask]:
        """Adds to the DAG of the task what is not there yet, and tells of all that was asked for;
        raises Suspended where it is to be waited for.
        """
        seedlings = await self.spawner.drafted(self.claimed(), wishes)
        async with self.in_turn():
            # Another branch of the same handler was faster: it runs again, too.
            if self.suspended:
                raise Suspended
            if self.exceeded:
                raise BudgetExceeded(TaskId.from_ulid(self.grant.task))
            grown = await spawn(self.shard, self.held, seedlings, wait=wait)
            if grown.suspended:
                self.suspended = True
                self.ledger.suspended(self.claimed())
                raise Suspended
        return await self.spawner.told(grown.tasks, wait)

    async def step(self, name: str, result: bytes = b"") -> bytes:
        """Keeps what a step gave, or tells what is kept."""
        return await step(self.shard, self.held, name, result)

    async def attach(self, artifact: Artifact) -> None:
        """Notes an artifact with the task."""
        await attach(self.shard, self.held, artifact)

    @property
    def held(self) -> Held:
        """The lease of the attempt."""
        return Held(self.grant.task, self.grant.token)

    def in_turn(self) -> asyncio.Lock:
        """Held by the call that is under way; made when it is first needed."""
        if self.lock is None:
            self.lock = asyncio.Lock()
        return self.lock

    async def current(self) -> Task:
        """The task as it stands now."""
        (found,) = await self.reader.read([self.grant.task])
        if found is None:
            raise TaskNotFound(TaskId.from_ulid(self.grant.task))
        return found
