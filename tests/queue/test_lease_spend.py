"""`lease.spend`: the costs of all concurrent callers count, each once."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Lease
from rqueue.core.notes import note
from rqueue.errors import BudgetExceeded, LeaseLost
from rqueue.task.task import Note
from tests.harness import Harness


async def spent(harness: Harness, lease: Lease) -> float:
    """Returns the cost of the task, which equals the spent amount of the day."""
    (day, *_) = (await harness.queue.budgets.list()).accounts
    assert day.spent_usd == (await harness.task(lease.id)).cost_usd
    return day.spent_usd


async def test_concurrent_costs_are_all_counted(harness: Harness) -> None:
    await harness.queue.budgets.set(100)
    lease = await harness.running()

    await asyncio.gather(*(lease.spend(1.0) for _ in range(20)))

    assert await spent(harness, lease) == 20


async def test_costs_from_many_processes_are_all_counted(harness: Harness) -> None:
    await harness.queue.budgets.set(100)
    lease = await harness.running()
    others = [await harness.queue.lease(str(lease.id), lease.token) for _ in range(20)]

    await asyncio.gather(*(other.spend(1.0, tokens_in=2) for other in others))

    assert await spent(harness, lease) == 20
    assert (await harness.task(lease.id)).tokens_used.input == 40


async def test_later_notes_of_the_worker_are_kept(harness: Harness) -> None:
    await harness.queue.budgets.set(100)
    lease, shard = await harness.running(), harness.queue._internals.shard
    await note(shard, lease.held, Note(usd=1.0), seq=1)

    await lease.spend(1.0)
    await note(shard, lease.held, Note(usd=5.0, progress={"at": 2}), seq=2)

    assert await spent(harness, lease) == 7
    assert (await harness.task(lease.id)).progress == {"at": 2}


async def test_every_call_above_the_limit_raises(harness: Harness) -> None:
    lease = await harness.running(max_cost_usd=1.0)
    await lease.spend(0.9)

    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await lease.spend(0.2)


async def test_a_lost_lease_reports_its_cost_once(harness: Harness) -> None:
    await harness.queue.budgets.set(100)
    lease = await harness.running()
    await lease.spend(1.0)
    await harness.age(lease, 120)
    await harness.reaper.tick()

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await lease.spend(2.0)

    assert await spent(harness, lease) == 3


@pytest.mark.parametrize("lost", [False, True])
async def test_a_late_repeated_call_counts_once(
    harness: Harness, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.queue.budgets.set(100)
    lease, shard = await harness.running(), harness.queue._internals.shard
    with monkeypatch.context() as patched:
        patched.setattr(shard, "request_args", lambda: {"request": "r1", "memo_ms": 60_000})
        await lease.spend(1.0)
        await note(shard, lease.held, Note(usd=2.0), seq=1)
        if lost:
            await harness.age(lease, 120)
            await harness.reaper.tick()

        await lease.spend(1.0)

    assert await spent(harness, lease) == 3
