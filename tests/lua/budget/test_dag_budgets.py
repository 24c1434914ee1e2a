"""A DAG pays its tasks up to its budget: what it cannot pay waits outside its lane, once."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Lease
from tests.client.until import parked
from tests.house import House
from tests.lua.budget.purse import claimed, costing, dag_account, ids
from tests.lua.rows import everything


async def planted(house: House, *usd: float, budget: float | None) -> tuple[str, list[str]]:
    """A DAG of tasks side by side that cost so much; its id, and theirs."""
    async with house.queue.dag("money", budget_usd=budget) as dag:
        nodes = [
            dag.add({"type": "code", "payload": {}, "estimated_cost_usd": each}) for each in usd
        ]
    return str(dag.id), [str(node.id) for node in nodes]


async def started(house: House, n: int = 10) -> list[Lease]:
    leases = await claimed(house, n)
    for lease in leases:
        await lease.start()
    return leases


async def test_what_a_dag_cannot_pay_waits_outside_its_lane(house: House) -> None:
    dag, tasks = await planted(house, 0.4, 0.4, 0.4, budget=1.0)

    assert len(await claimed(house)) == 2

    found = await everything(house)
    assert found[f"unpaid:{dag[-26:]}"] == {tasks[2][-26:]: 400_000}
    assert found["short"] == {dag[-26:]}
    assert "lane:1" not in found
    assert await dag_account(house, dag) == {"spent": 0, "reserved": 800_000}
    assert (await house.queue.counts())["READY"] == 1
    assert (await house.queue.budgets()).unpaid == 1


async def test_it_keeps_nothing_behind_it_from_being_given(house: House) -> None:
    await planted(house, *[1.0] * 300, budget=0.5)
    (other,) = await costing(house, 1.0, priority=99)

    assert ids(await claimed(house, 1)) == [other]
    assert await claimed(house, 1) == []


async def test_a_raised_budget_hands_out_what_waited(house: House) -> None:
    dag, tasks = await planted(house, 0.4, 0.4, budget=0.1)
    waits = asyncio.create_task(house.queue.claim(worker="w1", n=5, wait=30))
    await parked(house, 1)

    await house.queue.dag_budget(dag, 0.8)

    assert sorted(ids(await waits)) == sorted(tasks)
    found = await everything(house)
    assert "short" not in found
    assert f"unpaid:{dag[-26:]}" not in found


async def test_no_budget_any_more_hands_out_everything_in_steps(house: House) -> None:
    dag, tasks = await planted(house, *[0.4] * 300, budget=0.1)
    for _ in range(4):
        await claimed(house)
    assert (await house.queue.budgets()).unpaid == 300

    await house.queue.dag_budget(dag, None)
    await house.promoter.tick()

    assert (await house.queue.budgets()).unpaid == 0
    assert len(await claimed(house, 300)) == len(tasks)


async def test_a_completion_pays_for_the_next(house: House) -> None:
    _, tasks = await planted(house, 0.6, 0.6, budget=1.0)
    (lease,) = await started(house)

    await lease.complete()

    (other,) = await claimed(house)
    assert {lease.id, other.id} == set(tasks)


async def test_what_waits_for_money_can_be_cancelled(house: House) -> None:
    dag, tasks = await planted(house, 0.6, 0.6, budget=0.5)
    await claimed(house)

    await house.queue.cancel(tasks[0])

    assert (await everything(house))[f"unpaid:{dag[-26:]}"] == {tasks[1][-26:]: 600_000}
    assert (await house.queue.counts())["READY"] == 1
    await house.queue.cancel_dag(dag)
    assert f"unpaid:{dag[-26:]}" not in await everything(house)


async def test_a_paused_dag_keeps_what_its_raised_budget_pays(house: House) -> None:
    dag, _ = await planted(house, 0.6, budget=0.5)
    await claimed(house)
    await house.queue.pause_dag(dag)

    await house.queue.dag_budget(dag, 1.0)
    assert await claimed(house) == []
    await house.queue.resume_dag(dag)

    assert len(await claimed(house)) == 1


async def test_what_costs_nothing_waits_for_an_overdrawn_dag(house: House) -> None:
    dag, _ = await planted(house, 0.0, budget=0.5)
    await house.client.hset(house.keys.dag(dag[-26:]), "spent", 500_001)

    assert await claimed(house) == []
    await house.queue.dag_budget(dag, 0.500001)

    assert len(await claimed(house)) == 1


async def told(house: House) -> list[tuple[str, str]]:
    """What was said of budgets."""
    entries = await house.client.xrange(house.keys.events())
    return [
        (fields[b"event"].decode(), fields[b"detail"].decode())
        for _, fields in entries
        if fields[b"event"].startswith(b"budget")
    ]


async def test_that_it_is_used_up_is_said_once(house: House) -> None:
    dag, _ = await planted(house, 0.4, 0.4, 0.4, budget=0.5)
    (lease,) = await started(house)
    await house.promoter.tick()
    assert await told(house) == [], "a task in hand may give something back"

    await house.queue.dag_budget(dag, 0.41)
    await lease.complete()
    await house.client.hset(house.keys.dag(dag[-26:]), "spent", 400_000)
    for _ in range(3):
        await claimed(house)
        await house.promoter.tick()

    assert await told(house) == [("budget.exhausted", "dag")]


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_so_it_is_of_a_day_and_of_a_worker(house: House, worker: str | None) -> None:
    await house.queue.set_budget(0.1, worker=worker)
    await costing(house, 0.5)
    for _ in range(3):
        await claimed(house)
        await house.promoter.tick()

    assert await told(house) == [("budget.exhausted", "worker" if worker else "day")]
