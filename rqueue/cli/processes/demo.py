"""The workload of `rqueue up --demo`: a shop whose orders arrive in waves."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rqueue.errors import Reject, Retry, StoreUnavailable
from rqueue.queue import Queue
from rqueue.task.attempt.retry import RetryPolicy
from rqueue.task.spec import Call
from rqueue.worker.context import Context

NAME = "demo"
WAVES, ORDERS = 12, 60
WAVE_SEC = 0.4
# No new wave while more tasks than this are live.
MAX_LIVE = 5000
# A short lease, so that the tasks of a lost worker are soon retried in view.
LEASE_SEC = 6.0
VAN, LOAD = "van-that-breaks-down", 3
EVERY = 30
# The share of calls for which the demo's bank is busy.
BUSY = 0.1
RNG = random.Random()
RETRY = RetryPolicy.exponential(0.5, max_delay=2, jitter=False)


async def charge(ctx: Context, order: int, cents: int) -> str:
    """Calls a bank that is often busy, and retries."""
    await asyncio.sleep(RNG.uniform(0.005, 0.03))
    if RNG.random() < BUSY:
        raise Retry(after=0.5, reason="the bank is busy")
    await ctx.log(f"charged {cents} cents")
    return f"receipt-{order}"


def pack(order: int) -> str:
    """A synchronous handler, which runs in a thread."""
    return f"box-{order}"


async def photo(ctx: Context, order: int) -> int:
    """Reports its progress."""
    for step in range(3):
        await asyncio.sleep(RNG.uniform(0.01, 0.04))
        await ctx.progress({"step": step})
    return order


async def take_stock(ctx: Context, shelves: int) -> int:
    """Runs for a few seconds and reports its progress."""
    for shelf in range(shelves):
        await asyncio.sleep(0.2)
        await ctx.progress({"shelf": shelf + 1, "of": shelves})
    return shelves


async def ship_nowhere(order: int) -> None:
    """Always fails permanently: its tasks are dead after the first attempt."""
    raise Reject(f"order {order} has no address")


def build() -> Queue:
    """The demo's queue with its handlers, on the configured server."""
    queue = Queue(NAME, lease_sec=LEASE_SEC)
    queue.task("charge", priority=10, retry=RETRY)(charge)
    queue.task("pack", priority=40, retry=RETRY)(pack)
    queue.task("photo", priority=70, timeout=5)(photo)
    queue.task("stock", priority=90, timeout=60)(take_stock)
    queue.task("odd", priority=60, max_attempts=2, retry=RETRY)(ship_nowhere)
    return queue


async def produce(queue: Queue, waves: Iterable[int] = range(WAVES)) -> None:
    """Enqueues waves of orders; each order is a few tasks of different priorities."""
    rng = random.Random(7)
    for wave in waves:
        # No orders while the server is unavailable.
        with suppress(StoreUnavailable):
            if (await queue.counts()).live < MAX_LIVE:
                await queue.enqueue_many(orders(queue, wave, rng))
            if wave % EVERY == 0:
                await lose_worker(queue)
        await asyncio.sleep(WAVE_SEC)


def orders(queue: Queue, wave: int, rng: random.Random) -> list[Call]:
    """The tasks of one wave."""
    calls: list[Call] = []

    def add(type: str, payload: object, **options: Any) -> None:
        calls.append(queue.call(type, payload, **options))

    for number in range(ORDERS):
        order = wave * ORDERS + number
        bill = {"order": order, "cents": rng.randrange(99, 9999)}
        add("charge", bill, priority=10, max_attempts=20)
        add("pack", {"order": order}, delay=rng.choice([0, 0, 1]))
        if number % 3 == 0:
            add("photo", {"order": order}, tags=["pictures"])
        if number % 40 == 0:
            add("odd", {"order": order})
    add("stock", {"shelves": rng.randrange(5, 15)})
    return calls


async def lose_worker(queue: Queue) -> None:
    """Claims a few tasks as a worker that then disappears: its leases expire, and another worker
    runs the tasks.
    """
    for lease in await queue.claim(worker=VAN, types=["pack"], n=LOAD):
        await lease.start()
