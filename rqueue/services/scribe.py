"""Writes down what handlers say of their tasks, and reads what earlier attempts left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.errors import TaskNotFound
from rqueue.model.ids import TaskId
from rqueue.store.leases import Held
from rqueue.store.notes import note
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.model.note import Note
    from rqueue.model.task import Task
    from rqueue.services.ledger import Ledger
    from rqueue.store.claims import Grant
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard


class StoreScribe:
    """A context's way to the store. Notes of one attempt are sent one after the other, each with a
    rising number, so that one sent again is not kept twice.
    """

    def __init__(self, shard: Shard, reader: Reader, grant: Grant, ledger: Ledger) -> None:
        self.shard = shard
        self.reader = reader
        self.grant = grant
        self.ledger = ledger
        self.lock: asyncio.Lock | None = None
        self.seq = 0

    def claimed(self) -> Task:
        """The task as it was claimed."""
        return claimed(self.grant)

    async def note(self, said: Note) -> None:
        """Keeps a note; raises LeaseLost where the lease is no longer held."""
        if self.lock is None:
            self.lock = asyncio.Lock()
        async with self.lock:
            self.seq += 1
            held = Held(self.grant.task, self.grant.token)
            await note(self.shard, held, said, seq=self.seq)
        if said.usd:
            self.ledger.spent(self.claimed(), said.usd)

    async def current(self) -> Task:
        """The task as it stands now."""
        (found,) = await self.reader.read([self.grant.task])
        if found is None:
            raise TaskNotFound(TaskId.from_ulid(self.grant.task))
        return found
