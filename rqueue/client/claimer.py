"""Claiming by hand: one call, which may wait, and leaves nothing behind when it is given up."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store import leases
from rqueue.store.claims import Grant, Waiter, new_box
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

    async def claim(self, n: int, wait_sec: float) -> list[Grant]:
        """Up to `n` tasks, at once if there are any, else the first that come in time."""
        try:
            answer = await self.waiter.claim(n)
            if answer.grants or wait_sec <= 0:
                return answer.grants
            return await self.wait(n, asyncio.get_running_loop().time() + wait_sec)
        except asyncio.CancelledError:
            # What was given to a caller that has gone would be lost until its lease expires.
            FAREWELLS.add(task := asyncio.get_running_loop().create_task(self.leave()))
            task.add_done_callback(FAREWELLS.discard)
            raise

    async def wait(self, n: int, until: float) -> list[Grant]:
        """Parks the claim and reads its mail, again and again until the time is up."""
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            park_ms = min(round(left * 1000) + 1, self.shard.terms.park_ms)
            answer = await self.waiter.claim(n, wait_ms=park_ms)
            if not answer.grants:
                await self.listen(min(left, park_ms / 1000))
                answer = await self.waiter.claim(n)
            elif answer.wait_ms:
                answer.grants += (await self.waiter.claim(0)).grants
            if answer.grants:
                return answer.grants
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
            grants = {grant.task: grant for grant in (await self.waiter.claim(0)).grants}
            grants |= {grant.task: grant for grant in (await self.waiter.claim(0)).grants}
            if grants:
                await leases.release(self.shard, [Held(g.task, g.token) for g in grants.values()])
        except RQueueError:
            # Out of reach: the hand-off expires by itself and the tasks come back.
            return


# Kept, so that the tasks are not collected while they run.
FAREWELLS: set[asyncio.Task[None]] = set()
