"""A lively workload for `rqueue up --demo`: a shop whose orders come in waves."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rqueue.context import Context
from rqueue.errors import Reject, Retry, StoreUnavailable
from rqueue.model.call import Call
from rqueue.model.retry import RetryPolicy
from rqueue.queue import Queue

NAME = "demo"
WAVES, ORDERS = 12, 60
WAVE_SEC = 0.4
# No new wave while so many tasks have not ended.
CROWD = 5000
# A lease so short that one sees what becomes of the tasks of a van that broke down.
LEASE_SEC = 6.0
VAN, LOAD = "van-that-breaks-down", 3
EVERY = 30
# How often the demo's bank is busy.
BUSY = 0.1
DICE = random.Random()
AGAIN = RetryPolicy.exponential(0.5, max_delay=2, jitter=False)


async def charge(ctx: Context, order: int, cents: int) -> str:
    """Asks a bank that is often busy."""
    await asyncio.sleep(DICE.uniform(0.005, 0.03))
    if DICE.random() < BUSY:
        raise Retry(after=0.5, reason="the bank is busy")
    await ctx.log(f"charged {cents} cents")
    return f"receipt-{order}"


def pack(order: int) -> str:
    """A plain function: it runs in a thread."""
    return f"box-{order}"


async def photo(ctx: Context, order: int) -> int:
    """Says how far it is."""
    for step in range(3):
        await asyncio.sleep(DICE.uniform(0.01, 0.04))
        await ctx.progress({"step": step})
    return order


async def take_stock(ctx: Context, shelves: int) -> int:
    """Takes its time."""
    for shelf in range(shelves):
        await asyncio.sleep(0.2)
        await ctx.progress({"shelf": shelf + 1, "of": shelves})
    return shelves


async def ship_nowhere(order: int) -> None:
    """Can never succeed: it is dead at once."""
    raise Reject(f"order {order} has no address")


def build() -> Queue:
    """The demo's queue with its handlers, on the server that the settings name."""
    queue = Queue(NAME, lease_sec=LEASE_SEC)
    queue.task("charge", priority=10, retry=AGAIN)(charge)
    queue.task("pack", priority=40, retry=AGAIN)(pack)
    queue.task("photo", priority=70, timeout=5)(photo)
    queue.task("stock", priority=90, timeout=60)(take_stock)
    queue.task("odd", priority=60, max_attempts=2, retry=AGAIN)(ship_nowhere)
    return queue


async def produce(queue: Queue, waves: Iterable[int] = range(WAVES)) -> None:
    """Waves of orders; each order is a few tasks of different urgency."""
    dice = random.Random(7)
    for wave in waves:
        # While the server is away there are no orders.
        with suppress(StoreUnavailable):
            if (await queue.counts()).live < CROWD:
                await queue.enqueue_many(orders(queue, wave, dice))
            if wave % EVERY == 0:
                await break_down(queue)
        await asyncio.sleep(WAVE_SEC)


def orders(queue: Queue, wave: int, dice: random.Random) -> list[Call]:
    """The tasks of one wave."""
    calls: list[Call] = []

    def add(type: str, payload: object, **options: Any) -> None:
        calls.append(queue.call(type, payload, **options))

    for number in range(ORDERS):
        order = wave * ORDERS + number
        bill = {"order": order, "cents": dice.randrange(99, 9999)}
        add("charge", bill, priority=10, max_attempts=20)
        add("pack", {"order": order}, delay=dice.choice([0, 0, 1]))
        if number % 3 == 0:
            add("photo", {"order": order}, tags=["pictures"])
        if number % 40 == 0:
            add("odd", {"order": order})
    add("stock", {"shelves": dice.randrange(5, 15)})
    return calls


async def break_down(queue: Queue) -> None:
    """A worker that takes a few tasks and is never heard of again: its leases run out, and the
    tasks are done by another.
    """
    for lease in await queue.claim(worker=VAN, types=["pack"], n=LOAD):
        await lease.start()
