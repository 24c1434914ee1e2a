"""A claim reserves the cost of a task on day, worker and DAG, or does not take it."""

from __future__ import annotations

import pytest

from tests.harness import Harness
from tests.lua.budget.accounts import CENT, account, claimed, costing, ids
from tests.lua.rows import everything


async def test_a_claim_reserves_the_cost(harness: Harness) -> None:
    await costing(harness, 0.10, 0.25)

    leases = await claimed(harness)

    assert len(leases) == 2
    assert await account(harness) == {"spent": 0, "reserved": 35 * CENT}


async def test_a_task_that_costs_nothing_has_no_account(harness: Harness) -> None:
    await harness.queue.enqueue("code")

    await claimed(harness)

    assert not [key for key in await everything(harness) if key.startswith("budget")]


async def test_the_maximum_cost_is_reserved_where_no_estimate_exists(
    harness: Harness,
) -> None:
    await harness.queue.enqueue("code", {}, max_cost_usd=0.5)

    await claimed(harness)

    assert (await account(harness))["reserved"] == 50 * CENT


async def test_the_budget_of_a_day_is_not_exceeded(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    tasks = await costing(harness, 0.4, 0.4, 0.4)

    assert ids(await claimed(harness)) == tasks[:2]
    assert await claimed(harness, worker="w2") == []
    assert (await account(harness))["reserved"] == 80 * CENT


async def test_a_batch_uses_the_budget_to_the_last_cent_and_no_further(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    tasks = await costing(harness, 0.5, 0.5, 0.5)

    assert ids(await claimed(harness)) == tasks[:2]
    assert (await harness.queue.budgets.list()).day.remaining_usd == 0


async def test_a_cheaper_task_behind_an_expensive_one_is_claimed(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    _, cheap = await costing(harness, 1.2, 1.0)

    assert ids(await claimed(harness)) == [cheap]


async def test_a_worker_short_of_budget_is_not_blocked_by_expensive_tasks(harness: Harness) -> None:
    await harness.queue.budgets.set(0.05, worker="poor")
    expensive = await costing(harness, *[3.0] * 150)
    (cheap,) = await costing(harness, 0.05, priority=90)

    assert ids(await claimed(harness, worker="poor")) == [cheap]
    assert ids(await claimed(harness, worker="rich")) == expensive[:10]


async def test_a_free_task_is_claimed_with_an_exhausted_budget(harness: Harness) -> None:
    await harness.queue.budgets.set(0.0, worker="w1")
    await costing(harness, 0.01)
    free = (await harness.queue.enqueue("code", {})).id

    assert ids(await claimed(harness)) == [free]


async def test_an_overdrawn_worker_gets_no_task_at_all(harness: Harness) -> None:
    await harness.queue.budgets.set(0.1, worker="w1")
    lease = await harness.running()
    await spent(harness, lease, 0.2)
    free = (await harness.queue.enqueue("code", {})).id

    assert await claimed(harness) == []
    assert ids(await claimed(harness, worker="w2")) == [free]


async def spent(harness: Harness, lease: object, usd: float) -> None:
    """The worker of a lease is overdrawn."""
    await harness.client.hset(harness.keys.budget("worker=w1"), "spent", round(usd * 1_000_000))


async def test_the_budget_of_a_worker_belongs_to_its_name_not_to_a_process(
    harness: Harness,
) -> None:
    await harness.queue.budgets.set(1.0, worker="w1")
    await costing(harness, 0.6, 0.6)

    assert len(await claimed(harness, n=1)) == 1
    assert await claimed(harness, n=1) == []


@pytest.mark.parametrize("way", ["complete", "fail", "release", "park", "cancel", "reap"])
async def test_unspent_cost_is_refunded_when_the_lease_ends(harness: Harness, way: str) -> None:
    await harness.queue.budgets.set(5.0, worker="w1")
    await costing(harness, 0.6)
    (lease,) = await claimed(harness)
    await lease.start()

    match way:
        case "complete":
            await lease.complete()
        case "fail":
            await lease.fail()
        case "release":
            await lease.release()
        case "park":
            await lease.park(60)
        case "cancel":
            await harness.queue.cancel(lease.id)
        case _:
            await harness.age(lease, 3600)
            await harness.reaper.tick()

    assert await account(harness) == {"spent": 0, "reserved": 0}
    assert await account(harness, "worker=w1") == {"spent": 0, "reserved": 0}


async def test_a_recalled_delivery_is_refunded(harness: Harness) -> None:
    waiting = await harness.queue.claim(worker="w1")
    assert waiting == []
    await costing(harness, 0.6)
    (lease,) = await claimed(harness)

    await lease.release()

    assert (await account(harness))["reserved"] == 0


async def test_the_cost_of_yesterday_does_not_count_today(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    await harness.client.hset(
        harness.keys.budget("day"), mapping={"spent": 2_000_000, "date": 1, "reserved": 0}
    )
    (task,) = await costing(harness, 0.5)

    assert (await harness.queue.budgets.list()).day.spent_usd == 0
    assert ids(await claimed(harness)) == [task]


async def test_an_exclusive_task_keeps_its_cost_class(harness: Harness) -> None:
    await harness.queue.budgets.set(0.3)
    (task,) = await costing(harness, 0.25, max_attempts=5)
    for _ in range(2):
        (lease,) = await claimed(harness)
        await lease.start()
        await harness.age(lease, 3600)
        await harness.reaper.tick()
        await harness.make_due(task)
        await harness.promoter.tick()

    lanes = [key for key in await everything(harness) if key.startswith("lane:")]
    assert len(lanes) == 1
    await harness.queue.budgets.set(0.2)
    assert await claimed(harness) == []
    await harness.queue.budgets.set(0.25)
    assert ids(await claimed(harness)) == [task]
