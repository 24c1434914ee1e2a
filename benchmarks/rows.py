"""One function a row of the table. Ours and raw alternate, so that both meet the same weather."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks import ours, raw
from benchmarks.stand import Row, Stand, at_least, at_most, timed

Producer = Callable[[Stand, int], Awaitable[None]]

TASKS = 10_000
SINGLE = 2_000
QUEUED = 100_000
LANES = 50
MICRO = 1e6
BYTES = 560


async def bulk(stand: Stand, runs: int) -> Row:
    """Enqueue in batches of 100, as a rate."""
    pairs = await rates(stand, runs, ours.produce, raw.produce, tasks=TASKS)
    return at_least("bulk enqueue, batches of 100", "tasks/s", pairs, 1)


async def single(stand: Stand, runs: int) -> Row:
    """One enqueue at a time, as a rate."""
    pairs = await rates(stand, runs, ours.produce_singly, raw.produce_singly, tasks=SINGLE)
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

    async def batches() -> None:
        await ours.claim(waiter, TASKS // 2, 100)

    async def singly() -> None:
        await ours.claim(waiter, SINGLE // 2, 1)

    batch = await stand.spent(batches)
    single = await stand.spent(singly)
    return batch / (TASKS // 2) * MICRO, single / (SINGLE // 2) * MICRO


async def backlog(stand: Stand, runs: int, size: int) -> Row:
    """Claims in batches of 100 out of a large backlog, against one of a thousand."""
    small = []
    for _ in range(runs):
        await stand.empty()
        small.append(await backlog_cost(stand, 1_000, rounds=runs))
    await stand.empty()
    await ours.produce(stand, size)
    large = [await drain_cost(stand, 900, refill=900) for _ in range(runs)]
    pairs = list(zip(large, small, strict=True))
    return at_most(f"claim, backlog {size:,} / 1,000", "us of Redis/task", pairs, 1.5)


async def backlog_cost(stand: Stand, size: int, rounds: int) -> float:
    """The cost out of a backlog of this size, filled anew for each round."""
    await ours.produce(stand, size)
    return sum([await drain_cost(stand, 900, refill=900) for _ in range(rounds)]) / rounds


async def drain_cost(stand: Stand, tasks: int, *, refill: int) -> float:
    """The server's time a task for claiming so many; then as many are put in again."""
    waiter = ours.worker(stand)
    await stand.client.delete(stand.keys.waiter("w1"))

    async def work() -> None:
        await ours.claim(waiter, tasks, 100)

    cost = await stand.spent(work) / tasks * MICRO
    await ours.produce(stand, refill)
    return cost
