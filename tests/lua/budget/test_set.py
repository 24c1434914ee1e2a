"""set, read: the ceilings of accounts, and what remains of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.budgets.accounts import Budget
from rqueue.core.timers import promote
from rqueue.errors import InvalidTask
from tests.harness import Harness
from tests.lua.budget.accounts import account, claimed, costing, ids
from tests.lua.rows import everything
from tests.lua.task.keyspace import mailbox_lines, waiting_claim
from tests.queue.until import claims_waiting


async def test_a_ceiling_is_all_that_is_written(harness: Harness) -> None:
    await harness.queue.budgets.set(2.5)

    found = await everything(harness)

    assert found.pop("budgets") == {"day"}
    assert found.pop("budget:day") == {"ceiling": "2500000"}
    assert found == {}


async def test_a_removed_ceiling_deletes_the_account_of_a_worker(harness: Harness) -> None:
    await harness.queue.budgets.set(2.5, worker="w1")

    await harness.queue.budgets.set(None, worker="w1")

    assert await everything(harness) == {}


async def test_an_account_with_leased_tasks_is_deleted_when_the_last_one_ends(
    harness: Harness,
) -> None:
    await harness.queue.budgets.set(2.5, worker="w1")
    await costing(harness, 0.5)
    (lease,) = await claimed(harness)

    await harness.queue.budgets.set(None, worker="w1")
    assert await account(harness, "worker=w1") == {"spent": 0, "reserved": 500_000}
    await lease.release()

    assert "budget:worker=w1" not in await everything(harness)


async def test_a_repeated_call_does_not_reset_the_spending_twice(harness: Harness) -> None:
    args: dict[str, Any] = {
        "account": "day", "micro_usd": 1, "afresh": 1, "tries": 9, "request": "once",
        "memo_ms": 60_000,
    }  # fmt: skip
    await harness.queue._internals.shard.run("budget/set", args)
    await harness.client.hset(harness.keys.budget("day"), "spent", 7)

    await harness.queue._internals.shard.run("budget/set", args)

    assert (await account(harness))["spent"] == 7


async def test_afresh_resets_the_spending(harness: Harness) -> None:
    await harness.client.hset(harness.keys.budget("worker=w1"), "spent", 7)

    await harness.queue.budgets.set(1.0, worker="w1", afresh=True)

    assert (await account(harness, "worker=w1"))["spent"] == 0


async def test_all_accounts_are_listed_with_what_remains(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    await harness.queue.budgets.set(3.0, worker="w1")
    await costing(harness, 0.4)
    await claimed(harness)

    found = await harness.queue.budgets.list()

    assert found.accounts == (Budget("day", 1.0, 0.0, 0.4), Budget("worker=w1", 3.0, 0.0, 0.4))
    assert found.of_worker("w1") == found.accounts[1]
    assert found.of_worker("w2") is None


async def test_without_any_budget_the_day_is_listed(harness: Harness) -> None:
    assert (await harness.queue.budgets.list()).accounts == (Budget("day"),)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 1e9, "1", True])
async def test_an_invalid_sum_is_refused(harness: Harness, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="usd"):
        await harness.queue.budgets.set(wrong)

    assert await everything(harness) == {}


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_a_raised_budget_answers_waiting_claims(harness: Harness, worker: str | None) -> None:
    await harness.queue.budgets.set(0.1, worker=worker)
    (task,) = await costing(harness, 0.5)
    waits = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)

    await harness.queue.budgets.set(0.5, worker=worker)

    assert ids(await waits) == [task]


@pytest.mark.parametrize("way", ["complete", "fail"])
async def test_a_refund_answers_waiting_claims(harness: Harness, way: str) -> None:
    await harness.queue.budgets.set(1.0)
    await costing(harness, 0.9)
    (lease,) = await claimed(harness)
    await lease.start()
    (task,) = await costing(harness, 0.8)
    waits = asyncio.create_task(harness.queue.claim(worker="w2", wait=30))
    await claims_waiting(harness, 1)

    if way == "complete":
        await lease.complete()
    else:
        # Other outcomes leave it to the promoter.
        await lease.fail()
        await harness.promoter.tick()

    assert ids(await waits) == [task]


async def test_a_new_day_answers_waiting_claims(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    today = (await harness.client.time())[0] // 86_400
    await harness.client.hset(
        harness.keys.budget("day"), mapping={"spent": 900_000, "date": today, "reserved": 0}
    )
    (task,) = await costing(harness, 0.8)
    waiter = await waiting_claim(harness)
    assert await harness.client.zscore(harness.keys.wakes(), "$day") == (today + 1) * 86_400_000

    await harness.client.hset(harness.keys.budget("day"), "date", today - 1)
    await harness.client.zadd(harness.keys.wakes(), {"$day": 1})
    await promote(harness.queue._internals.shard)

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")
    assert task[-26:] in line


async def test_a_claim_that_cannot_be_paid_does_not_loop(harness: Harness) -> None:
    await harness.queue.budgets.set(0.1)
    await costing(harness, 0.5)
    assert await claimed(harness) == []

    await harness.promoter.tick()
    before = await everything(harness)
    await harness.promoter.tick()

    assert await everything(harness) == before
