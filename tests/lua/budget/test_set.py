"""set, read: what accounts may cost, and what they tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.errors import InvalidTask
from rqueue.model.budget import Budget
from rqueue.store.passage import promote
from tests.client.until import parked
from tests.house import House
from tests.lua.budget.purse import account, claimed, costing, ids
from tests.lua.rows import everything
from tests.lua.task.afterwards import mail
from tests.lua.task.afterwards import parked as at_the_door


async def test_a_ceiling_is_all_that_is_written(house: House) -> None:
    await house.queue.set_budget(2.5)

    found = await everything(house)

    assert found.pop("budgets") == {"day"}
    assert found.pop("budget:day") == {"ceiling": "2500000"}
    assert found == {}


async def test_no_limit_leaves_no_account_of_a_worker(house: House) -> None:
    await house.queue.set_budget(2.5, worker="w1")

    await house.queue.set_budget(None, worker="w1")

    assert await everything(house) == {}


async def test_an_account_whose_tasks_are_in_hand_goes_with_the_last_of_them(house: House) -> None:
    await house.queue.set_budget(2.5, worker="w1")
    await costing(house, 0.5)
    (lease,) = await claimed(house)

    await house.queue.set_budget(None, worker="w1")
    assert await account(house, "worker=w1") == {"spent": 0, "reserved": 500_000}
    await lease.release()

    assert "budget:worker=w1" not in await everything(house)


async def test_a_call_that_is_sent_again_does_not_forget_twice(house: House) -> None:
    args: dict[str, Any] = {
        "account": "day", "micro_usd": 1, "afresh": 1, "tries": 9, "request": "once",
        "memo_ms": 60_000,
    }  # fmt: skip
    await house.queue.shard.run("budget/set", args)
    await house.client.hset(house.keys.budget("day"), "spent", 7)

    await house.queue.shard.run("budget/set", args)

    assert (await account(house))["spent"] == 7


async def test_afresh_forgets_what_was_spent(house: House) -> None:
    await house.client.hset(house.keys.budget("worker=w1"), "spent", 7)

    await house.queue.set_budget(1.0, worker="w1", afresh=True)

    assert (await account(house, "worker=w1"))["spent"] == 0


async def test_all_accounts_are_told_with_what_is_left(house: House) -> None:
    await house.queue.set_budget(1.0)
    await house.queue.set_budget(3.0, worker="w1")
    await costing(house, 0.4)
    await claimed(house)

    found = await house.queue.budgets()

    assert found.accounts == (Budget("day", 1.0, 0.0, 0.4), Budget("worker=w1", 3.0, 0.0, 0.4))
    assert found.of_worker("w1") == found.accounts[1]
    assert found.of_worker("w2") is None


async def test_without_any_budget_the_day_is_told(house: House) -> None:
    assert (await house.queue.budgets()).accounts == (Budget("day"),)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 1e9, "1", True])
async def test_what_is_no_sum_is_refused(house: House, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="usd"):
        await house.queue.set_budget(wrong)

    assert await everything(house) == {}


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_a_raised_budget_answers_who_waits(house: House, worker: str | None) -> None:
    await house.queue.set_budget(0.1, worker=worker)
    (task,) = await costing(house, 0.5)
    waits = asyncio.create_task(house.queue.claim(worker="w1", wait=30))
    await parked(house, 1)

    await house.queue.set_budget(0.5, worker=worker)

    assert ids(await waits) == [task]


@pytest.mark.parametrize("way", ["complete", "fail"])
async def test_money_that_comes_back_answers_who_waits(house: House, way: str) -> None:
    await house.queue.set_budget(1.0)
    await costing(house, 0.9)
    (lease,) = await claimed(house)
    await lease.start()
    (task,) = await costing(house, 0.8)
    waits = asyncio.create_task(house.queue.claim(worker="w2", wait=30))
    await parked(house, 1)

    if way == "complete":
        await lease.complete()
    else:
        # Another end leaves it to the promoter.
        await lease.fail()
        await house.promoter.tick()

    assert ids(await waits) == [task]


async def test_a_new_day_answers_who_waits(house: House) -> None:
    await house.queue.set_budget(1.0)
    today = (await house.client.time())[0] // 86_400
    await house.client.hset(
        house.keys.budget("day"), mapping={"spent": 900_000, "date": today, "reserved": 0}
    )
    (task,) = await costing(house, 0.8)
    waiter = await at_the_door(house)
    assert await house.client.zscore(house.keys.wakes(), "$day") == (today + 1) * 86_400_000

    await house.client.hset(house.keys.budget("day"), "date", today - 1)
    await house.client.zadd(house.keys.wakes(), {"$day": 1})
    await promote(house.queue.shard)

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")
    assert task[-26:] in line


async def test_who_cannot_be_paid_does_not_spin(house: House) -> None:
    await house.queue.set_budget(0.1)
    await costing(house, 0.5)
    assert await claimed(house) == []

    await house.promoter.tick()
    before = await everything(house)
    await house.promoter.tick()

    assert await everything(house) == before
