"""Claiming by hand: one call, which may wait, and leaves nothing behind when it is given up."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store import leases
from rqueue.store.claims import Answer, Grant, Waiter, new_box
from rqueue.store.leases import Held
from rqueue.store.mail import read_mail

if TYPE_CHECKING:
    from rqueue.policy.capability import Offer
    from rqueue.store.shard import Shard


class HandClaim:
    """One claim by hand: a conversation of its own, so that many may run under one name."""

    def __init__(self, shard: Shard, worker: str, offer: Offer) -> None:
        self.shard = shard
        name = f"{worker}/{secrets.token_hex(8)}"
        self.waiter = Waiter(shard, worker, offer, name=name, lasts=False)
        # All that this call was given: what its caller does not get must be given back.
        self.given: dict[str, Grant] = {}

    def again(self) -> HandClaim:
        """Another claim under the same name, for the same offer."""
        return HandClaim(self.shard, self.waiter.consumer, self.waiter.offer)

    async def ask(self, n: int, *, wait_ms: int = 0) -> Answer:
        """A claim of the conversation; what it gives is remembered."""
        answer = await self.waiter.claim(n, wait_ms=wait_ms)
        self.given |= {grant.task: grant for grant in answer.grants}
        return answer

    async def claim(self, n: int, wait_sec: float) -> list[Grant]:
        """Up to `n` tasks, at once if there are any, else the first that come in time."""
        try:
            answer = await self.ask(n)
            if answer.grants or wait_sec <= 0:
                return answer.grants
            return await self.wait(n, asyncio.get_running_loop().time() + wait_sec)
        except (asyncio.CancelledError, StoreUnavailable):
            # What was given to a caller that has gone would be lost until its lease expires.
            FAREWELLS.add(task := asyncio.get_running_loop().create_task(self.leave()))
            task.add_done_callback(FAREWELLS.discard)
            raise

    async def wait(self, n: int, until: float) -> list[Grant]:
        """Parks the claim and reads its mail, again and again until the time is up."""
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            park_ms = min(round(left * 1000) + 1, self.shard.terms.park_ms)
            answer = await self.ask(n, wait_ms=park_ms)
            if not answer.grants:
                await self.listen(min(left, park_ms / 1000))
                await self.ask(n)
            elif answer.wait_ms:
                await self.ask(0)
            if self.given:
                return list(self.given.values())
        return []

    async def listen(self, wait_sec: float) -> None:
        """Waits for a line in the box; whatever it says, the next claim has what was given."""
        try:
            await read_mail(self.shard, self.waiter.box, wait_sec)
        except StoreUnavailable:
            self.waiter.box = new_box()

    async def leave(self) -> None:
        """Ends the wait and gives back what it was given."""
        try:
            # The last claim again: its answer may have been on its way when the caller left.
            self.waiter.seq -= 1
            await self.ask(0)
            await self.ask(0)
            if self.given:
                held = [Held(grant.task, grant.token) for grant in self.given.values()]
                await leases.release(self.shard, held)
        except RQueueError:
            # Out of reach: the hand-off expires by itself and the tasks come back.
            return


# Kept, so that the tasks are not collected while they run.
FAREWELLS: set[asyncio.Task[None]] = set()
