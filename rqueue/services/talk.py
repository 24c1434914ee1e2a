"""A worker's conversation with its server: one turn after the other, and mail in between."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError
from rqueue.store.claims import Waiter, new_box
from rqueue.store.leases import Held
from rqueue.store.mail import Mail, read_mail

if TYPE_CHECKING:
    from rqueue.policy.capability import Offer
    from rqueue.store.claims import Grant, Turned
    from rqueue.store.leases import Settled
    from rqueue.store.shard import Shard

PAUSE_SEC = 0.1


class Talk:
    """What is said to the server in turns, and what it brings by mail to a claim that is parked."""

    def __init__(self, shard: Shard, worker: str, offer: Offer) -> None:
        self.shard = shard
        # One of its own for each run: another one under the same name has other numbers.
        name = f"{worker}/{secrets.token_hex(4)}"
        self.waiter = Waiter(shard, worker, offer, name=name, lasts=True)
        # Where it is told what was taken out of its hands.
        self.own_box = f"@{worker}"
        self.unconfirmed: dict[str, str] = {}
        self.ahead_ms = 0.0

    @property
    def now_ms(self) -> float:
        """The server's time, as far as its last answer told."""
        return time.monotonic() * 1000 + self.ahead_ms

    async def turn(self, done: list[Settled], room: int, begin: int) -> tuple[Turned, list[Held]]:
        """Completes what is done, claims for the room there is, of which the first `begin` begin at
        once, and confirms what was brought; the answer, and what was brought but is another's by
        now.
        """
        # It may grow while the call is under way: what comes then is for the next one.
        unconfirmed, self.unconfirmed = self.unconfirmed, {}
        park_ms = self.shard.terms.park_ms if room else 0
        try:
            # What has ended with this very call is carried over no more.
            kept = len(unconfirmed.keys() - {row.task for row in done})
            turned = await self.waiter.turn(done, room + kept, wait_ms=park_ms, begin=begin + kept)
        except RQueueError:
            # Sent again under the same number: what it gave is told then.
            self.waiter.seq -= 1
            self.unconfirmed = unconfirmed | self.unconfirmed
            raise
        self.ahead_ms = turned.now_ms - time.monotonic() * 1000
        known = {grant.task: grant.token for grant in turned.answer.grants}
        known |= {row.task: row.token for row in done}
        lost = [Held(*one) for one in unconfirmed.items() if known.get(one[0]) != one[1]]
        return turned, lost

    async def mail(self, wait_sec: float) -> Mail | None:
        """The next mail; `lost` where the connection was, and with it perhaps mail."""
        try:
            return await read_mail(self.shard, self.waiter.box, wait_sec, self.own_box)
        except RQueueError:
            # A half-open read may still take the next mail: nobody writes to that box again.
            self.waiter.box = new_box()
            await asyncio.sleep(PAUSE_SEC)
            return Mail(["lost"])

    def brought(self, mail: Mail) -> list[Grant]:
        """What mail has brought, to be run at once and confirmed with the next turn. Nothing of
        old mail: what it brought may be another's by now.
        """
        if self.now_ms - mail.sent_ms > self.shard.terms.handoff_ms / 2:
            return []
        grants = self.waiter.mailed(mail)
        self.unconfirmed |= {grant.task: grant.token for grant in grants}
        return grants
