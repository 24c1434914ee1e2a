"""What was held back for money returns as soon as there is money, whatever became of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.errors import LeaseLost
from rqueue.model.note import Note
from rqueue.store.leases import Held
from rqueue.store.notes import note
from rqueue.store.submits import submit
from tests.house import House
from tests.lua.budget.purse import account, claimed, costing, dag_account, ids
from tests.lua.budget.test_dag_budgets import planted, started, told
from tests.lua.budget.test_spend import say
from tests.lua.rows import everything
from tests.lua.task.afterwards import mail, parked


@pytest.mark.parametrize("way", ["cancel", "reschedule"])
async def test_one_that_was_only_ready_keeps_no_money(house: House, way: str) -> None:
    _, (_, first, other, last) = await planted(house, 2.0, 0.1, 0.6, 0.6, budget=1.0)
    (lease,) = await started(house, 1)
    assert lease.id == first

    if way == "cancel":
        await house.queue.cancel(other)
    else:
        await house.queue.reschedule(other, delay=86_400)
    await say(house, lease, 0.1)
    await lease.complete()
    await house.promoter.tick()

    assert ids(await claimed(house)) == [last]


async def test_a_paused_type_keeps_no_money_from_another(house: House) -> None:
    async with house.queue.dag(budget_usd=1.0) as dag:
        for type, usd in (("code", 2.0), ("other", 0.8), ("code", 0.3)):
            last = dag.add({"type": type, "payload": {}, "estimated_cost_usd": usd})
    await house.queue.pause(type="other")

    assert ids(await claimed(house, 1)) == [str(last.id)]


async def test_one_without_its_entry_keeps_no_money(house: House) -> None:
    _, (lost, other) = await planted(house, 0.6, 0.6, budget=1.0)
    entry = await house.client.hget(house.keys.task(lost[-26:]), "entry")
    await house.client.xdel(house.keys.ready(), entry)
    assert await claimed(house) == []

    await house.queue.cancel(lost)
    await house.promoter.tick()

    assert ids(await claimed(house)) == [other]


async def test_a_dag_that_is_given_up_is_short_no_more(house: House) -> None:
    dag, _ = await planted(house, 0.6, 0.6, budget=0.5)
    await claimed(house)

    await house.queue.cancel_dag(dag)
    await house.promoter.tick()

    assert "short" not in await everything(house)
    assert await told(house) == []


async def test_an_empty_lane_makes_no_account_short(house: House) -> None:
    await house.queue.set_budget(1.0)
    (dear,) = await costing(house, 2.0)
    await house.queue.cancel(dear)

    await claimed(house)

    assert "short" not in await everything(house)


async def test_a_poor_worker_keeps_its_hands_free_for_nothing(house: House) -> None:
    queue = house.queue
    await queue.set_budget(0.6, worker="poor")
    await queue.enqueue("plain")
    assert len(await claimed(house, 1, "poor")) == 1
    draft = queue.drafter.draft({"type": "code", "payload": {}, "estimated_cost_usd": 0.9})
    await submit(queue.shard, [draft._replace(lane=replace(draft.lane, alone=True), base=1)])
    free = [(await queue.enqueue("plain")).id for _ in range(3)]

    assert ids(await claimed(house, 3, "poor")) == free


@pytest.mark.parametrize("key", [None, "tenant"])
async def test_a_cheaper_task_behind_a_dear_one_is_given(house: House, key: str | None) -> None:
    await house.queue.set_budget(0.6)
    dear, cheap = await costing(house, 0.9, 0.55, limit_key=key)

    assert ids(await claimed(house, 3)) == [cheap]
    await house.queue.set_budget(2.0)
    assert ids(await claimed(house, 1)) == [dear]


async def test_a_rich_worker_is_found_behind_many_poor_ones(house: House) -> None:
    (known,) = await costing(house, 1.0)
    await house.queue.cancel(known)
    for number in range(105):
        await house.queue.set_budget(0.01, worker=f"p{number:03}")
        await parked(house, f"p{number:03}")
    rich = await parked(house, "rich")

    (task,) = await costing(house, 1.0)
    for _ in range(2):
        await house.promoter.tick()

    (line,) = await mail(house, rich)
    assert line.split(" ")[2] == task[-26:]


async def test_a_debounced_task_has_the_new_price(house: House) -> None:
    queue = house.queue
    task = await queue.enqueue("code", {}, estimated_cost_usd=0.3, idempotency_key="k")
    await queue.enqueue(
        "code", {}, estimated_cost_usd=0.5, idempotency_key="k", if_exists="debounce"
    )

    (lease,) = await claimed(house)

    assert lease.id == task.id
    assert (await account(house))["reserved"] == 500_000


async def test_a_run_that_was_recalled_may_say_what_it_cost(house: House) -> None:
    await costing(house, 0.2)
    (lease,) = await claimed(house)
    await lease.start()
    await house.client.zadd(house.keys.handoffs(), {f"{lease.id.ulid}:1": 1})
    await house.promoter.tick()

    with pytest.raises(LeaseLost):
        await say(house, lease, 0.1)

    assert await account(house) == {"spent": 100_000, "reserved": 0}


async def test_a_late_note_makes_no_dag_that_is_gone(house: House) -> None:
    dag, _ = await planted(house, 0.4, budget=1.0)
    (lease,) = await started(house)
    await house.queue.cancel_dag(dag)
    await house.client.delete(house.keys.dag(dag[-26:]))

    with pytest.raises(LeaseLost):
        await note(house.queue.shard, Held(lease.id.ulid, lease.token), Note(usd=0.1), seq=1)

    assert not await house.client.exists(house.keys.dag(dag[-26:]))


async def test_what_a_task_cost_before_it_had_a_dag_is_its_dags(house: House) -> None:
    await costing(house, 0.5)
    (lease,) = await claimed(house)
    await lease.start()
    await say(house, lease, 0.2)

    await house.queue.enqueue("code", {}, depends_on=[lease.id])

    assert await dag_account(house, lease.id) == {"spent": 200_000, "reserved": 300_000}


async def test_many_that_cannot_be_paid_keep_what_stands_behind_not_for_long(house: House) -> None:
    await planted(house, *[1.0] * 3000, budget=0.5)
    (other,) = await costing(house, 1.0, priority=99)

    assert await claimed(house, 1) == []
    # The promoter answers who waits, and goes on with it.
    assert await house.client.zscore(house.keys.wakes(), "*") is not None
    assert ids(await claimed(house, 1)) == [other]


async def test_what_waits_for_money_is_found_among_the_ready(house: House) -> None:
    _, tasks = await planted(house, 0.6, 0.6, budget=0.5)
    await claimed(house)

    assert {task.id async for task in house.queue.find(states=["READY"])} == set(tasks)


async def test_a_lifted_budget_does_not_forget_what_was_spent(house: House) -> None:
    await house.queue.set_budget(5.0, worker="w1")
    lease = await house.running()
    await say(house, lease, 2.0)
    await lease.complete()

    await house.queue.set_budget(None, worker="w1")
    await house.queue.set_budget(3.0, worker="w1")

    assert (await account(house, "worker=w1"))["spent"] == 2_000_000
