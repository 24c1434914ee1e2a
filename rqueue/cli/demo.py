"""A lively workload for `rqueue up --demo`: a shop whose orders come in waves."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.context import Context  # noqa: TC001
from rqueue.errors import Reject, Retry
from rqueue.model.retry import RetryPolicy
from rqueue.queue import Queue

if TYPE_CHECKING:
    from rqueue.client.counts import Counts

NAME = "demo"
WAVES, ORDERS = 12, 60
# How often the demo's bank is busy.
BUSY = 0.1
AGAIN = RetryPolicy.exponential(0.5, max_delay=2, jitter=False)


def build() -> Queue:
    """The demo's queue with its handlers, on the server that the settings name."""
    queue = Queue(NAME)
    dice = random.Random()

    @queue.task("charge", priority=10, retry=AGAIN)
    async def charge(ctx: Context, order: int, cents: int) -> str:
        await asyncio.sleep(dice.uniform(0.005, 0.03))
        if dice.random() < BUSY:
            raise Retry(after=0.5, reason="the bank is busy")
        await ctx.log(f"charged {cents} cents")
        return f"receipt-{order}"

    @queue.task("pack", priority=40)
    def pack(order: int) -> str:
        return f"box-{order}"

    @queue.task("photo", priority=70, timeout=5)
    async def photo(ctx: Context, order: int) -> int:
        for step in range(3):
            await asyncio.sleep(dice.uniform(0.01, 0.04))
            await ctx.progress({"step": step})
        return order

    @queue.task("odd", priority=60, max_attempts=2, retry=AGAIN)
    async def odd(order: int) -> None:
        raise Reject(f"order {order} has no address")

    return queue


async def produce(queue: Queue) -> None:
    """Waves of orders; each order is a few tasks of different urgency."""
    dice = random.Random(7)
    for wave in range(WAVES):
        calls = []
        for number in range(ORDERS):
            order = wave * ORDERS + number
            bill = {"order": order, "cents": dice.randrange(99, 9999)}
            calls.append(queue.call("charge", bill, priority=10, max_attempts=20))
            calls.append(queue.call("pack", {"order": order}, delay=dice.choice([0, 0, 1])))
            if number % 3 == 0:
                calls.append(queue.call("photo", {"order": order}, tags=["pictures"]))
            if number % 40 == 0:
                calls.append(queue.call("odd", {"order": order}))
        await queue.enqueue_many(calls)
        await asyncio.sleep(0.4)


@dataclass(frozen=True, slots=True)
class Moment:
    """The demo at one moment."""

    counts: Counts
    per_second: float

    @property
    def line(self) -> str:
        """The moment in one line."""
        parts = [f"{state} {n}" for state, n in self.counts.by_state.items() if n]
        return f"{', '.join(parts)} | {self.per_second:.0f} tasks/s"
