"""A worker's session with Redis: exchanges, and deliveries to a waiting claim between them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rqueue.core.claim import Delivery, WaitingClaim, new_mailbox, read_mailbox
from rqueue.core.leases import HeldLease
from rqueue.errors import RQueueError

if TYPE_CHECKING:
    from rqueue.core.claim import Exchanged, Grant
    from rqueue.core.leases import Settled
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Offer
    from rqueue.worker.slots import Slots


PAUSE_SEC = 0.1
# A waiting claim is renewed when this share of its time is over.
SHARE = 0.8


class Session:
    """One worker's exchanges with Redis, and the mailbox of its waiting claim."""

    def __init__(self, shard: Shard, worker: str, offer: Offer) -> None:
        self.shard = shard
        # Unique for each run: another run under the same worker name counts its claims separately.
        name = f"{worker}/{secrets.token_hex(4)}"
        self.waiter = WaitingClaim(shard, worker, offer, name=name, lasts=True)
        # Receives lost leases and drain requests.
        self.own_mailbox = f"@{worker}"
        self.unconfirmed: dict[str, str] = {}
        self.clock_offset_ms = 0.0

    @property
    def now_ms(self) -> float:
        """The server's time, derived from its last reply."""
        return time.monotonic() * 1000 + self.clock_offset_ms

    async def exchange(
        self, done: list[Settled], capacity: int, begin: int
    ) -> tuple[Exchanged, list[HeldLease]]:
        """Completes `done`, claims `capacity` tasks of which the first `begin` start immediately,
        and confirms delivered tasks. Returns the reply and the delivered leases that were lost
        meanwhile.
        """
        # The table may grow during the call; later deliveries belong to the next exchange.
        unconfirmed, self.unconfirmed = self.unconfirmed, {}
        wait_ms = self.shard.terms.claim_wait_ms if capacity else 0
        try:
            # A task that is completed by this call is not confirmed any more.
            kept = len(unconfirmed.keys() - {row.task for row in done})
            reply = await self.waiter.exchange(
                done, capacity + kept, wait_ms=wait_ms, begin=begin + kept
            )
        except RQueueError:
            # Repeated under the same number, so that the reply includes what the lost reply
            # granted.
            self.waiter.seq -= 1
            self.unconfirmed = unconfirmed | self.unconfirmed
            raise
        self.clock_offset_ms = reply.now_ms - time.monotonic() * 1000
        known = {grant.task: grant.token for grant in reply.answer.grants}
        known |= {row.task: row.token for row in done}
        lost = [HeldLease(*one) for one in unconfirmed.items() if known.get(one[0]) != one[1]]
        return reply, lost

    async def next_delivery(self, wait_sec: float) -> Delivery | None:
        """The next delivery, or None. `lost` after a connection error, since a delivery may be lost
        with it.
        """
        try:
            return await read_mailbox(self.shard, self.waiter.mailbox, wait_sec, self.own_mailbox)
        except RQueueError:
            # A half-open read could still take a delivery, so the old mailbox is not used again.
            self.waiter.mailbox = new_mailbox()
            await asyncio.sleep(PAUSE_SEC)
            return Delivery(["lost"])

    def delivered(self, delivery: Delivery) -> list[Grant]:
        """The tasks of a delivery, to be run immediately and confirmed by the next exchange. None
        of an old delivery: the tasks may be leased to another worker.
        """
        if self.now_ms - delivery.sent_ms > self.shard.terms.delivery_ms / 2:
            return []
        grants = self.waiter.delivered_with(delivery)
        self.unconfirmed |= {grant.task: grant.token for grant in grants}
        return grants


class WaitState:
    """Whether a claim of this worker waits. While it does, the worker need not claim, and other
    queues on the same slots may. `ended` is called when it waits no longer.
    """

    def __init__(self, slots: Slots, ended: Callable[[], object]) -> None:
        self.slots = slots
        self.ended = ended
        self.waiting = False
        self.timer: asyncio.TimerHandle | None = None

    def begin(self, wait_sec: float) -> None:
        """Records the reply to a claim, which waits for `wait_sec` from now; 0 if it does
        not wait.
        """
        self.forget()
        self.waiting = wait_sec > 0
        self.slots.shared_slots.set_work(self.slots, more=not self.waiting)
        if self.waiting:
            self.timer = asyncio.get_running_loop().call_later(wait_sec * SHARE, self.end)

    def end(self) -> None:
        """Ends the wait after a delivery or shortly before its time is over; the next exchange
        claims again.
        """
        self.forget()
        self.slots.shared_slots.set_work(self.slots, more=True)
        self.ended()

    def forget(self) -> None:
        """Records that no claim waits."""
        self.waiting = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
