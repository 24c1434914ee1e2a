"""What was held back for money returns as soon as there is money, whatever became of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.core.leases import HeldLease
from rqueue.core.notes import note
from rqueue.core.submit import submit
from rqueue.errors import LeaseLost
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.budget.purse import account, claimed, costing, dag_account, ids
from tests.lua.budget.test_dag_budgets import planted, started, told
from tests.lua.budget.test_spend import say
from tests.lua.rows import everything
from tests.lua.task.keys_after import mail, parked


@pytest.mark.parametrize("way", ["cancel", "reschedule"])
async def test_one_that_was_only_ready_keeps_no_money(harness: Harness, way: str) -> None:
    _, (_, first, other, last) = await planted(harness, 2.0, 0.1, 0.6, 0.6, budget=1.0)
    (lease,) = await started(harness, 1)
    assert lease.id == first

    if way == "cancel":
        await harness.queue.cancel(other)
    else:
        await harness.queue.reschedule(other, delay=86_400)
    await say(harness, lease, 0.1)
    await lease.complete()
    await harness.promoter.tick()

    assert ids(await claimed(harness)) == [last]


async def test_a_paused_type_keeps_no_money_from_another(harness: Harness) -> None:
    async with harness.queue.dag(budget_usd=1.0) as dag:
        for type, usd in (("code", 2.0), ("other", 0.8), ("code", 0.3)):
            last = dag.add({"type": type, "payload": {}, "estimated_cost_usd": usd})
    await harness.queue.pause(type="other")

    assert ids(await claimed(harness, 1)) == [str(last.id)]


async def test_one_without_its_entry_keeps_no_money(harness: Harness) -> None:
    _, (lost, other) = await planted(harness, 0.6, 0.6, budget=1.0)
    entry = await harness.client.hget(harness.keys.task(lost[-26:]), "entry")
    await harness.client.xdel(harness.keys.ready(), entry)
    assert await claimed(harness) == []

    await harness.queue.cancel(lost)
    await harness.promoter.tick()

    assert ids(await claimed(harness)) == [other]


async def test_a_dag_that_is_given_up_is_short_no_more(harness: Harness) -> None:
    dag, _ = await planted(harness, 0.6, 0.6, budget=0.5)
    await claimed(harness)

    await harness.queue.dags.cancel(dag)
    await harness.promoter.tick()

    assert "short" not in await everything(harness)
    assert await told(harness) == []


async def test_an_empty_lane_makes_no_account_short(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    (dear,) = await costing(harness, 2.0)
    await harness.queue.cancel(dear)

    await claimed(harness)

    assert "short" not in await everything(harness)


async def test_a_poor_worker_keeps_its_hands_free_for_nothing(harness: Harness) -> None:
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
async def test_a_cheaper_task_behind_a_dear_one_is_given(harness: Harness, key: str | None) -> None:
    await harness.queue.budgets.set(0.6)
    dear, cheap = await costing(harness, 0.9, 0.55, limit_key=key)

    assert ids(await claimed(harness, 3)) == [cheap]
    await harness.queue.budgets.set(2.0)
    assert ids(await claimed(harness, 1)) == [dear]


async def test_a_rich_worker_is_found_behind_many_poor_ones(harness: Harness) -> None:
    (known,) = await costing(harness, 1.0)
    await harness.queue.cancel(known)
    for number in range(105):
        await harness.queue.budgets.set(0.01, worker=f"p{number:03}")
        await parked(harness, f"p{number:03}")
    rich = await parked(harness, "rich")

    (task,) = await costing(harness, 1.0)
    for _ in range(2):
        await harness.promoter.tick()

    (line,) = await mail(harness, rich)
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


async def test_a_run_that_was_recalled_may_say_what_it_cost(harness: Harness) -> None:
    await costing(harness, 0.2)
    (lease,) = await claimed(harness)
    await lease.start()
    await harness.client.zadd(harness.keys.deliveries(), {f"{lease.id.ulid}:1": 1})
    await harness.promoter.tick()

    with pytest.raises(LeaseLost):
        await say(harness, lease, 0.1)

    assert await account(harness) == {"spent": 100_000, "reserved": 0}


async def test_a_late_note_makes_no_dag_that_is_gone(harness: Harness) -> None:
    dag, _ = await planted(harness, 0.4, budget=1.0)
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


async def test_what_a_task_cost_before_it_had_a_dag_is_its_dags(harness: Harness) -> None:
    await costing(harness, 0.5)
    (lease,) = await claimed(harness)
    await lease.start()
    await say(harness, lease, 0.2)

    await harness.queue.enqueue("code", {}, depends_on=[lease.id])

    assert await dag_account(harness, lease.id) == {"spent": 200_000, "reserved": 300_000}


async def test_many_that_cannot_be_paid_keep_what_stands_behind_not_for_long(
    harness: Harness,
) -> None:
    await planted(harness, *[1.0] * 3000, budget=0.5)
    (other,) = await costing(harness, 1.0, priority=99)

    assert await claimed(harness, 1) == []
    # The promoter answers who waits, and goes on with it.
    assert await harness.client.zscore(harness.keys.wakes(), "*") is not None
    assert ids(await claimed(harness, 1)) == [other]


async def test_what_waits_for_money_is_found_among_the_ready(harness: Harness) -> None:
    _, tasks = await planted(harness, 0.6, 0.6, budget=0.5)
    await claimed(harness)

    assert {task.id async for task in harness.queue.find(states=["READY"])} == set(tasks)


async def test_a_lifted_budget_does_not_forget_what_was_spent(harness: Harness) -> None:
    await harness.queue.budgets.set(5.0, worker="w1")
    lease = await harness.running()
    await say(harness, lease, 2.0)
    await lease.complete()

    await harness.queue.budgets.set(None, worker="w1")
    await harness.queue.budgets.set(3.0, worker="w1")

    assert (await account(harness, "worker=w1"))["spent"] == 2_000_000
