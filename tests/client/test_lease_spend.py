"""Spending by hand: whoever speaks of a run, and however many at once, all of it counts, once."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Lease
from rqueue.errors import BudgetExceeded, LeaseLost
from rqueue.model.note import Note
from rqueue.store.notes import note
from tests.house import House


async def spent(house: House, lease: Lease) -> float:
    """What the task has cost, which is what the day has."""
    (day, *_) = (await house.queue.budgets()).accounts
    assert day.spent_usd == (await house.task(lease.id)).cost_usd
    return day.spent_usd


async def test_many_at_once_are_all_counted(house: House) -> None:
    await house.queue.set_budget(100)
    lease = await house.running()

    await asyncio.gather(*(lease.spend(1.0) for _ in range(20)))

    assert await spent(house, lease) == 20


async def test_many_processes_of_a_run_are_all_counted(house: House) -> None:
    await house.queue.set_budget(100)
    lease = await house.running()
    others = [await house.queue.lease(str(lease.id), lease.token) for _ in range(20)]

    await asyncio.gather(*(other.spend(1.0, tokens_in=2) for other in others))

    assert await spent(house, lease) == 20
    assert (await house.task(lease.id)).tokens_used.input == 40


async def test_what_the_worker_notes_after_it_is_kept(house: House) -> None:
    await house.queue.set_budget(100)
    lease, shard = await house.running(), house.queue.shard
    await note(shard, lease.held, Note(usd=1.0), seq=1)

    await lease.spend(1.0)
    await note(shard, lease.held, Note(usd=5.0, progress={"at": 2}), seq=2)

    assert await spent(house, lease) == 7
    assert (await house.task(lease.id)).progress == {"at": 2}


async def test_too_much_is_told_each_time(house: House) -> None:
    lease = await house.running(max_cost_usd=1.0)
    await lease.spend(0.9)

    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await lease.spend(0.2)


async def test_a_lost_run_says_once_by_hand_what_it_has_cost(house: House) -> None:
    await house.queue.set_budget(100)
    lease = await house.running()
    await lease.spend(1.0)
    await house.age(lease, 120)
    await house.reaper.tick()

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await lease.spend(2.0)

    assert await spent(house, lease) == 3


@pytest.mark.parametrize("lost", [False, True])
async def test_a_call_that_comes_again_late_counts_once(
    house: House, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.queue.set_budget(100)
    lease, shard = await house.running(), house.queue.shard
    with monkeypatch.context() as patched:
        patched.setattr(shard, "by_hand", lambda: {"request": "r1", "memo_ms": 60_000})
        await lease.spend(1.0)
        await note(shard, lease.held, Note(usd=2.0), seq=1)
        if lost:
            await house.age(lease, 120)
            await house.reaper.tick()

        await lease.spend(1.0)

    assert await spent(house, lease) == 3
