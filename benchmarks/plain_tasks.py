"""Plain tasks, compared with raw stream commands.

The two alternate, because the load of the machine varies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import ours, raw
from benchmarks.environment import Environment, timed
from benchmarks.table import Row, at_least, at_most

if TYPE_CHECKING:
    from rqueue.core.claim import WaitingClaim

Producer = Callable[[Environment, int], Awaitable[None]]

TASKS = 10_000
SINGLE = 2_000
QUEUED = 100_000
LANES = 50
FEW = 1_000
# Rates depend on the load of the machine more than costs do: more and shorter runs.
SHORT_RUNS = 5
MICRO = 1e6
BYTES = 560


async def rows(env: Environment, runs: int) -> list[Row]:
    """The rows of plain tasks and raw commands, and those over many lanes."""
    return [
        await bulk(env, runs),
        await cycle(env, runs),
        await memory(env),
        await single(env, runs),
        *(await lanes(env, runs)),
    ]


async def bulk(env: Environment, runs: int) -> Row:
    """Enqueue in batches of 100, as a rate."""
    pairs = await rates(
        env, SHORT_RUNS * runs, ours.produce, raw.produce, tasks=TASKS // SHORT_RUNS
    )
    return at_least("bulk enqueue, batches of 100", "tasks/s", pairs, 1)


async def single(env: Environment, runs: int) -> Row:
    """One enqueue at a time, as a rate."""
    pairs = await rates(
        env, SHORT_RUNS * runs, ours.produce_singly, raw.produce_singly, tasks=SINGLE // SHORT_RUNS
    )
    return at_least("one enqueue at a time", "tasks/s", pairs, 0.7)


async def rates(
    env: Environment, runs: int, ours_: Producer, raw_: Producer, *, tasks: int
) -> list[tuple[float, float]]:
    """Tasks a second of rqueue and of raw commands, alternating, each on an empty server."""
    pairs = []
    for _ in range(runs):
        await env.empty()
        raw_sec = await timed(partial(raw_, env, tasks))
        await env.empty()
        own_sec = await timed(partial(ours_, env, tasks))
        pairs.append((tasks / own_sec, tasks / raw_sec))
    return pairs


async def cycle(env: Environment, runs: int) -> Row:
    """The server time from submit to completion, compared with the raw commands."""
    pairs = []
    for _ in range(runs):
        await env.empty()
        raw_sec = await env.spent(partial(raw_cycle, env))
        await env.empty()
        own_sec = await env.spent(partial(ours.run, env, TASKS))
        pairs.append((own_sec / TASKS * MICRO, raw_sec / TASKS * MICRO))
    return at_most("submit, claim, complete, batches of 100", "us of Redis/task", pairs, 6)


async def raw_cycle(env: Environment) -> None:
    """XADD, XREADGROUP, XACK, XDEL."""
    await raw.produce(env, TASKS)
    await raw.consume(env, TASKS)


async def memory(env: Environment) -> Row:
    """The server's bytes for a queued task with a payload of 100 bytes."""
    await env.empty()
    await ours.produce(env, 100)
    before = (await env.client.info("memory"))["used_memory"]
    await ours.produce(env, QUEUED)
    after = (await env.client.info("memory"))["used_memory"]
    each = (after - before) / QUEUED
    return Row("memory, 100-byte payload", "bytes/task", each, None, f"<= {BYTES}",
               each / BYTES, each <= BYTES)  # fmt: skip


async def lanes(env: Environment, runs: int) -> list[Row]:
    """Claims over 50 lanes with random priorities, compared with one; in batches and singly."""
    batches, singly = [], []
    for _ in range(runs):
        one = await claim_cost(env, 1)
        many = await claim_cost(env, LANES)
        batches.append((many[0], one[0]))
        singly.append((many[1], one[1]))
    return [
        at_most("claim, 50 lanes / 1 lane", "us of Redis/task", batches, 2),
        at_most("claim one at a time, 50 lanes / 1 lane", "us of Redis/task", singly),
    ]


async def claim_cost(env: Environment, count: int) -> tuple[float, float]:
    """The server time of each task, claimed in batches of 100 and then one at a time."""
    await env.empty()
    await ours.produce_lanes(env, TASKS, count)
    claim = ours.worker(env)
    await claim.claim(1)

    batch = await env.spent(partial(take, claim, TASKS // 2, 100))
    single = await env.spent(partial(take, claim, SINGLE // 2, 1))
    return batch / (TASKS // 2) * MICRO, single / (SINGLE // 2) * MICRO


async def backlog(env: Environment, runs: int, size: int) -> Row:
    """Claims in batches of 100 from a large backlog, compared with a queue of a thousand tasks."""
    await env.empty()
    few = env.with_queue("few")
    await ours.produce(few, FEW)
    await ours.produce(env, size)
    pairs = []
    for _ in range(runs):
        small = await drain_cost(few, runs)
        pairs.append((await drain_cost(env, runs), small))
    await few.queue.aclose()
    return at_most(f"claim, backlog {size:,} / {FEW:,}", "us of Redis/task", pairs, 1.5)


async def drain_cost(env: Environment, rounds: int) -> float:
    """The server time of each task for claiming 900 of them; each round adds as many again."""
    tasks, spent = FEW * 9 // 10, 0.0
    for _ in range(rounds):
        claim = ours.worker(env)
        await env.client.delete(env.keys.waiter("w1"))
        spent += await env.spent(partial(take, claim, tasks, 100))
        await ours.produce(env, tasks)
    return spent / (rounds * tasks) * MICRO


async def take(claim: WaitingClaim, tasks: int, batch: int) -> None:
    """Claims tasks and drops the answer."""
    await ours.claim(claim, tasks, batch)
