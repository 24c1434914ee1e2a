"""Held tasks return as soon as their budget can pay them, whatever became of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.core.leases import HeldLease
from rqueue.core.notes import note
from rqueue.core.submit import submit
from rqueue.errors import LeaseLost
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.budget.accounts import account, claimed, costing, dag_account, ids
from tests.lua.budget.test_dag_budgets import budget_events, dag_of_tasks, started
from tests.lua.budget.test_spend import report
from tests.lua.rows import everything
from tests.lua.task.keyspace import mailbox_lines, waiting_claim


@pytest.mark.parametrize("way", ["cancel", "reschedule"])
async def test_a_ready_task_reserves_nothing(harness: Harness, way: str) -> None:
    _, (_, first, other, last) = await dag_of_tasks(harness, 2.0, 0.1, 0.6, 0.6, budget=1.0)
    (lease,) = await started(harness, 1)
    assert lease.id == first

    if way == "cancel":
        await harness.queue.cancel(other)
    else:
        await harness.queue.reschedule(other, delay=86_400)
    await report(harness, lease, 0.1)
    await lease.complete()
    await harness.promoter.tick()

    assert ids(await claimed(harness)) == [last]


async def test_a_paused_type_reserves_nothing(harness: Harness) -> None:
    async with harness.queue.dag(budget_usd=1.0) as dag:
        for type, usd in (("code", 2.0), ("other", 0.8), ("code", 0.3)):
            last = dag.add({"type": type, "payload": {}, "estimated_cost_usd": usd})
    await harness.queue.pause(type="other")

    assert ids(await claimed(harness, 1)) == [str(last.id)]


async def test_a_task_without_its_entry_reserves_nothing(harness: Harness) -> None:
    _, (lost, other) = await dag_of_tasks(harness, 0.6, 0.6, budget=1.0)
    entry = await harness.client.hget(harness.keys.task(lost[-26:]), "entry")
    await harness.client.xdel(harness.keys.ready(), entry)
    assert await claimed(harness) == []

    await harness.queue.cancel(lost)
    await harness.promoter.tick()

    assert ids(await claimed(harness)) == [other]


async def test_a_cancelled_dag_is_no_longer_short(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.6, 0.6, budget=0.5)
    await claimed(harness)

    await harness.queue.dags.cancel(dag)
    await harness.promoter.tick()

    assert "short" not in await everything(harness)
    assert await budget_events(harness) == []


async def test_an_empty_lane_makes_no_account_short(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    (expensive,) = await costing(harness, 2.0)
    await harness.queue.cancel(expensive)

    await claimed(harness)

    assert "short" not in await everything(harness)


async def test_a_worker_without_budget_does_not_drain_for_an_exclusive_task(
    harness: Harness,
) -> None:
    queue = harness.queue
    await queue.budgets.set(0.6, worker="poor")
    await queue.enqueue("plain")
    assert len(await claimed(harness, 1, "poor")) == 1
    draft = queue._internals.drafter.draft(
        {"type": "code", "payload": {}, "estimated_cost_usd": 0.9}
    )
    await submit(
        queue._internals.shard, [draft._replace(lane=replace(draft.lane, exclusive=True), base=1)]
    )
    free = [(await queue.enqueue("plain")).id for _ in range(3)]

    assert ids(await claimed(harness, 3, "poor")) == free


@pytest.mark.parametrize("key", [None, "tenant"])
async def test_a_cheaper_task_behind_an_expensive_one_is_claimed(
    harness: Harness, key: str | None
) -> None:
    await harness.queue.budgets.set(0.6)
    expensive, cheap = await costing(harness, 0.9, 0.55, limit_key=key)

    assert ids(await claimed(harness, 3)) == [cheap]
    await harness.queue.budgets.set(2.0)
    assert ids(await claimed(harness, 1)) == [expensive]


async def test_a_worker_with_budget_is_answered_behind_many_without(harness: Harness) -> None:
    (known,) = await costing(harness, 1.0)
    await harness.queue.cancel(known)
    for number in range(105):
        await harness.queue.budgets.set(0.01, worker=f"p{number:03}")
        await waiting_claim(harness, f"p{number:03}")
    waiter = await waiting_claim(harness, "rich")

    (task,) = await costing(harness, 1.0)
    for _ in range(2):
        await harness.promoter.tick()

    (line,) = await mailbox_lines(harness, waiter)
    assert line.split(" ")[2] == task[-26:]


async def test_a_debounced_task_has_the_new_price(harness: Harness) -> None:
    queue = harness.queue
    task = await queue.enqueue("code", {}, estimated_cost_usd=0.3, idempotency_key="k")
    await queue.enqueue(
        "code", {}, estimated_cost_usd=0.5, idempotency_key="k", if_exists="debounce"
    )

    (lease,) = await claimed(harness)

    assert lease.id == task.id
    assert (await account(harness))["reserved"] == 500_000


async def test_a_recalled_run_may_report_its_cost(harness: Harness) -> None:
    await costing(harness, 0.2)
    (lease,) = await claimed(harness)
    await lease.start()
    await harness.client.zadd(harness.keys.deliveries(), {f"{lease.id.ulid}:1": 1})
    await harness.promoter.tick()

    with pytest.raises(LeaseLost):
        await report(harness, lease, 0.1)

    assert await account(harness) == {"spent": 100_000, "reserved": 0}


async def test_a_late_note_does_not_create_a_deleted_dag(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.4, budget=1.0)
    (lease,) = await started(harness)
    await harness.queue.dags.cancel(dag)
    await harness.client.delete(harness.keys.dag(dag[-26:]))

    with pytest.raises(LeaseLost):
        await note(
            harness.queue._internals.shard,
            HeldLease(lease.id.ulid, lease.token),
            Note(usd=0.1),
            seq=1,
        )

    assert not await harness.client.exists(harness.keys.dag(dag[-26:]))


async def test_the_cost_of_a_task_before_it_joined_a_dag_counts_for_the_dag(
    harness: Harness,
) -> None:
    await costing(harness, 0.5)
    (lease,) = await claimed(harness)
    await lease.start()
    await report(harness, lease, 0.2)

    await harness.queue.enqueue("code", {}, depends_on=[lease.id])

    assert await dag_account(harness, lease.id) == {"spent": 200_000, "reserved": 300_000}


async def test_many_unpaid_tasks_delay_the_tasks_behind_them_only_briefly(
    harness: Harness,
) -> None:
    await dag_of_tasks(harness, *[1.0] * 3000, budget=0.5)
    (other,) = await costing(harness, 1.0, priority=99)

    assert await claimed(harness, 1) == []
    # The promoter continues, and answers waiting claims.
    assert await harness.client.zscore(harness.keys.wakes(), "*") is not None
    assert ids(await claimed(harness, 1)) == [other]


async def test_held_tasks_are_counted_as_ready(harness: Harness) -> None:
    _, tasks = await dag_of_tasks(harness, 0.6, 0.6, budget=0.5)
    await claimed(harness)

    assert {task.id async for task in harness.queue.find(states=["READY"])} == set(tasks)


async def test_a_removed_budget_keeps_the_spending(harness: Harness) -> None:
    await harness.queue.budgets.set(5.0, worker="w1")
    lease = await harness.running()
    await report(harness, lease, 2.0)
    await lease.complete()

    await harness.queue.budgets.set(None, worker="w1")
    await harness.queue.budgets.set(3.0, worker="w1")

    assert (await account(harness, "worker=w1"))["spent"] == 2_000_000
