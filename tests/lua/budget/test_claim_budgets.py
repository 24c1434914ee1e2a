"""What a claim hands out is paid: set aside with the day, the worker and the DAG, or not given."""

from __future__ import annotations

import pytest

from tests.house import House
from tests.lua.budget.purse import CENT, account, claimed, costing, ids
from tests.lua.rows import everything


async def test_what_is_claimed_is_set_aside(house: House) -> None:
    await costing(house, 0.10, 0.25)

    leases = await claimed(house)

    assert len(leases) == 2
    assert await account(house) == {"spent": 0, "reserved": 35 * CENT}


async def test_a_task_that_costs_nothing_has_no_account(house: House) -> None:
    await house.queue.enqueue("code")

    await claimed(house)

    assert not [key for key in await everything(house) if key.startswith("budget")]


async def test_the_most_it_may_cost_is_set_aside_where_nothing_is_estimated(house: House) -> None:
    await house.queue.enqueue("code", {}, max_cost_usd=0.5)

    await claimed(house)

    assert (await account(house))["reserved"] == 50 * CENT


async def test_a_day_pays_no_more_than_it_may_cost(house: House) -> None:
    await house.queue.set_budget(1.0)
    tasks = await costing(house, 0.4, 0.4, 0.4)

    assert ids(await claimed(house)) == tasks[:2]
    assert await claimed(house, worker="w2") == []
    assert (await account(house))["reserved"] == 80 * CENT


async def test_a_batch_pays_to_the_last_cent_and_no_further(house: House) -> None:
    await house.queue.set_budget(1.0)
    tasks = await costing(house, 0.5, 0.5, 0.5)

    assert ids(await claimed(house)) == tasks[:2]
    assert (await house.queue.budgets()).day.remaining_usd == 0


async def test_a_cheaper_one_behind_a_dear_one_is_given(house: House) -> None:
    await house.queue.set_budget(1.0)
    _, cheap = await costing(house, 1.2, 1.0)

    assert ids(await claimed(house)) == [cheap]


async def test_a_poor_worker_is_not_blocked_behind_dear_tasks(house: House) -> None:
    await house.queue.set_budget(0.05, worker="poor")
    dear = await costing(house, *[3.0] * 150)
    (cheap,) = await costing(house, 0.05, priority=90)

    assert ids(await claimed(house, worker="poor")) == [cheap]
    assert ids(await claimed(house, worker="rich")) == dear[:10]


async def test_what_costs_nothing_is_given_to_who_has_nothing_left(house: House) -> None:
    await house.queue.set_budget(0.0, worker="w1")
    await costing(house, 0.01)
    free = (await house.queue.enqueue("code", {})).id

    assert ids(await claimed(house)) == [free]


async def test_an_overdrawn_worker_is_given_nothing_at_all(house: House) -> None:
    await house.queue.set_budget(0.1, worker="w1")
    lease = await house.running()
    await spent(house, lease, 0.2)
    free = (await house.queue.enqueue("code", {})).id

    assert await claimed(house) == []
    assert ids(await claimed(house, worker="w2")) == [free]


async def spent(house: House, lease: object, usd: float) -> None:
    """The worker of a lease is overdrawn."""
    await house.client.hset(house.keys.budget("worker=w1"), "spent", round(usd * 1_000_000))


async def test_a_workers_budget_is_its_names_not_its_processes(house: House) -> None:
    await house.queue.set_budget(1.0, worker="w1")
    await costing(house, 0.6, 0.6)

    assert len(await claimed(house, n=1)) == 1
    assert await claimed(house, n=1) == []


@pytest.mark.parametrize("way", ["complete", "fail", "release", "park", "cancel", "reap"])
async def test_what_is_not_spent_comes_back_when_it_leaves_the_hand(house: House, way: str) -> None:
    await house.queue.set_budget(5.0, worker="w1")
    await costing(house, 0.6)
    (lease,) = await claimed(house)
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
            await house.queue.cancel(lease.id)
        case _:
            await house.age(lease, 3600)
            await house.reaper.tick()

    assert await account(house) == {"spent": 0, "reserved": 0}
    assert await account(house, "worker=w1") == {"spent": 0, "reserved": 0}


async def test_a_hand_off_that_nobody_began_gives_its_money_back(house: House) -> None:
    waiting = await house.queue.claim(worker="w1")
    assert waiting == []
    await costing(house, 0.6)
    (lease,) = await claimed(house)

    await lease.release()

    assert (await account(house))["reserved"] == 0


async def test_yesterdays_spending_is_not_todays(house: House) -> None:
    await house.queue.set_budget(1.0)
    await house.client.hset(
        house.keys.budget("day"), mapping={"spent": 2_000_000, "date": 1, "reserved": 0}
    )
    (task,) = await costing(house, 0.5)

    assert (await house.queue.budgets()).day.spent_usd == 0
    assert ids(await claimed(house)) == [task]


async def test_a_task_keeps_its_cost_class_when_it_runs_alone(house: House) -> None:
    await house.queue.set_budget(0.3)
    (task,) = await costing(house, 0.25, max_attempts=5)
    for _ in range(2):
        (lease,) = await claimed(house)
        await lease.start()
        await house.age(lease, 3600)
        await house.reaper.tick()
        await house.make_due(task)
        await house.promoter.tick()

    lanes = [key for key in await everything(house) if key.startswith("lane:")]
    assert len(lanes) == 1
    await house.queue.set_budget(0.2)
    assert await claimed(house) == []
    await house.queue.set_budget(0.25)
    assert ids(await claimed(house)) == [task]
