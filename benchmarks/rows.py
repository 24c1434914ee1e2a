"""One function a row of the table. Ours and raw alternate, so that both meet the same weather."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import ours, raw
from benchmarks.stand import Row, Stand, at_least, at_most, timed

if TYPE_CHECKING:
    from rqueue.core.claim import WaitingClaim

Producer = Callable[[Stand, int], Awaitable[None]]

TASKS = 10_000
SINGLE = 2_000
QUEUED = 100_000
LANES = 50
FEW = 1_000
# Rates hang on the weather of the machine more than costs do: more and shorter turns.
SHORT = 5
MICRO = 1e6
BYTES = 560


async def all_rows(stand: Stand, runs: int) -> list[Row]:
    """The rows of plain tasks beside raw commands, and those over many lanes."""
    return [
        await bulk(stand, runs),
        await life(stand, runs),
        await memory(stand),
        await single(stand, runs),
        *(await lanes(stand, runs)),
    ]


async def bulk(stand: Stand, runs: int) -> Row:
    """Enqueue in batches of 100, as a rate."""
    pairs = await rates(stand, SHORT * runs, ours.produce, raw.produce, tasks=TASKS // SHORT)
    return at_least("bulk enqueue, batches of 100", "tasks/s", pairs, 1)


async def single(stand: Stand, runs: int) -> Row:
    """One enqueue at a time, as a rate."""
    pairs = await rates(
        stand, SHORT * runs, ours.produce_singly, raw.produce_singly, tasks=SINGLE // SHORT
    )
    return at_least("one enqueue at a time", "tasks/s", pairs, 0.7)


async def rates(
    stand: Stand, runs: int, own: Producer, theirs: Producer, *, tasks: int
) -> list[tuple[float, float]]:
    """Tasks a second, ours and theirs in turn, each on an empty server."""
    pairs = []
    for _ in range(runs):
        await stand.empty()
        theirs_sec = await timed(partial(theirs, stand, tasks))
        await stand.empty()
        own_sec = await timed(partial(own, stand, tasks))
        pairs.append((tasks / own_sec, tasks / theirs_sec))
    return pairs


async def life(stand: Stand, runs: int) -> Row:
    """The server's time for a whole life, against the raw cycle."""
    pairs = []
    for _ in range(runs):
        await stand.empty()
        theirs = await stand.spent(partial(raw_cycle, stand))
        await stand.empty()
        own = await stand.spent(partial(ours.live, stand, TASKS))
        pairs.append((own / TASKS * MICRO, theirs / TASKS * MICRO))
    return at_most("whole life, batches of 100", "us of Redis/task", pairs, 6)


async def raw_cycle(stand: Stand) -> None:
    """XADD, XREADGROUP, XACK, XDEL."""
    await raw.produce(stand, TASKS)
    await raw.consume(stand, TASKS)


async def memory(stand: Stand) -> Row:
    """Bytes of the server for a queued task with a payload of 100 bytes."""
    await stand.empty()
    await ours.produce(stand, 100)
    before = (await stand.client.info("memory"))["used_memory"]
    await ours.produce(stand, QUEUED)
    after = (await stand.client.info("memory"))["used_memory"]
    each = (after - before) / QUEUED
    return Row("memory, 100-byte payload", "bytes/task", each, None, f"<= {BYTES}",
               each / BYTES, each <= BYTES)  # fmt: skip


async def lanes(stand: Stand, runs: int) -> list[Row]:
    """Claims over 50 lanes with random priorities against one lane; in batches, and singly."""
    batches, singly = [], []
    for _ in range(runs):
        one = await claim_cost(stand, 1)
        many = await claim_cost(stand, LANES)
        batches.append((many[0], one[0]))
        singly.append((many[1], one[1]))
    printed = at_most("claim of one, 50 lanes / 1 lane", "us of Redis/task", singly, float("inf"))
    return [at_most("claim, 50 lanes / 1 lane", "us of Redis/task", batches, 2), printed]


async def claim_cost(stand: Stand, count: int) -> tuple[float, float]:
    """The server's time a task, claimed in batches of 100 and then one by one."""
    await stand.empty()
    await ours.produce_lanes(stand, TASKS, count)
    waiter = ours.worker(stand)
    await waiter.claim(1)

    batch = await stand.spent(partial(take, waiter, TASKS // 2, 100))
    single = await stand.spent(partial(take, waiter, SINGLE // 2, 1))
    return batch / (TASKS // 2) * MICRO, single / (SINGLE // 2) * MICRO


async def backlog(stand: Stand, runs: int, size: int) -> Row:
    """Claims in batches of 100 out of a large backlog, against a queue of a thousand beside it."""
    await stand.empty()
    few = stand.beside("few")
    await ours.produce(few, FEW)
    await ours.produce(stand, size)
    pairs = []
    for _ in range(runs):
        small = await drain_cost(few, runs)
        pairs.append((await drain_cost(stand, runs), small))
    await few.queue.aclose()
    return at_most(f"claim, backlog {size:,} / {FEW:,}", "us of Redis/task", pairs, 1.5)


async def drain_cost(stand: Stand, rounds: int) -> float:
    """The server's time a task for claiming nearly all of a few; each time as many are put in
    again.
    """
    tasks, spent = FEW * 9 // 10, 0.0
    for _ in range(rounds):
        waiter = ours.worker(stand)
        await stand.client.delete(stand.keys.waiter("w1"))
        spent += await stand.spent(partial(take, waiter, tasks, 100))
        await ours.produce(stand, tasks)
    return spent / (rounds * tasks) * MICRO


async def take(waiter: WaitingClaim, tasks: int, batch: int) -> None:
    """Claims, for their cost alone."""
    await ours.claim(waiter, tasks, batch)
