"""A DAG pays its tasks up to its budget; a task that it cannot pay is held outside its lane."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Lease
from tests.harness import Harness
from tests.lua.budget.accounts import claimed, costing, dag_account, ids
from tests.lua.rows import everything
from tests.queue.until import claims_waiting


async def dag_of_tasks(
    harness: Harness, *usd: float, budget: float | None
) -> tuple[str, list[str]]:
    """A DAG of tasks side by side that cost so much; its id, and theirs."""
    async with harness.queue.dag("money", budget_usd=budget) as dag:
        nodes = [
            dag.add({"type": "code", "payload": {}, "estimated_cost_usd": each}) for each in usd
        ]
    return str(dag.id), [str(node.id) for node in nodes]


async def started(harness: Harness, n: int = 10) -> list[Lease]:
    leases = await claimed(harness, n)
    for lease in leases:
        await lease.start()
    return leases


async def test_a_task_that_its_dag_cannot_pay_is_held_outside_its_lane(harness: Harness) -> None:
    dag, tasks = await dag_of_tasks(harness, 0.4, 0.4, 0.4, budget=1.0)

    assert len(await claimed(harness)) == 2

    found = await everything(harness)
    assert found[f"unpaid:{dag[-26:]}"] == {tasks[2][-26:]: 400_000}
    assert found["short"] == {dag[-26:]}
    assert "lane:1" not in found
    assert await dag_account(harness, dag) == {"spent": 0, "reserved": 800_000}
    assert (await harness.queue.counts())["READY"] == 1
    assert (await harness.queue.budgets.list()).unpaid == 1


async def test_an_unpaid_task_does_not_block_tasks_behind_it(harness: Harness) -> None:
    await dag_of_tasks(harness, *[1.0] * 300, budget=0.5)
    (other,) = await costing(harness, 1.0, priority=99)

    assert ids(await claimed(harness, 1)) == [other]
    assert await claimed(harness, 1) == []


async def test_a_raised_budget_returns_held_tasks_to_their_lanes(harness: Harness) -> None:
    dag, tasks = await dag_of_tasks(harness, 0.4, 0.4, budget=0.1)
    waits = asyncio.create_task(harness.queue.claim(worker="w1", n=5, wait=30))
    await claims_waiting(harness, 1)

    await harness.queue.dags.set_budget(dag, 0.8)

    assert sorted(ids(await waits)) == sorted(tasks)
    found = await everything(harness)
    assert "short" not in found
    assert f"unpaid:{dag[-26:]}" not in found


async def test_a_removed_budget_returns_all_held_tasks_in_steps(harness: Harness) -> None:
    dag, tasks = await dag_of_tasks(harness, *[0.4] * 300, budget=0.1)
    for _ in range(4):
        await claimed(harness)
    assert (await harness.queue.budgets.list()).unpaid == 300

    await harness.queue.dags.set_budget(dag, None)
    await harness.promoter.tick()

    assert (await harness.queue.budgets.list()).unpaid == 0
    assert len(await claimed(harness, 300)) == len(tasks)


async def test_the_refund_of_a_completion_pays_the_next_task(harness: Harness) -> None:
    _, tasks = await dag_of_tasks(harness, 0.6, 0.6, budget=1.0)
    (lease,) = await started(harness)

    await lease.complete()

    (other,) = await claimed(harness)
    assert {lease.id, other.id} == set(tasks)


async def test_a_held_task_can_be_cancelled(harness: Harness) -> None:
    dag, tasks = await dag_of_tasks(harness, 0.6, 0.6, budget=0.5)
    await claimed(harness)

    await harness.queue.cancel(tasks[0])

    assert (await everything(harness))[f"unpaid:{dag[-26:]}"] == {tasks[1][-26:]: 600_000}
    assert (await harness.queue.counts())["READY"] == 1
    await harness.queue.dags.cancel(dag)
    assert f"unpaid:{dag[-26:]}" not in await everything(harness)


async def test_a_raised_budget_of_a_paused_dag_returns_no_task(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.6, budget=0.5)
    await claimed(harness)
    await harness.queue.dags.pause(dag)

    await harness.queue.dags.set_budget(dag, 1.0)
    assert await claimed(harness) == []
    await harness.queue.dags.resume(dag)

    assert len(await claimed(harness)) == 1


async def test_a_free_task_of_an_overdrawn_dag_is_held(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.0, budget=0.5)
    await harness.client.hset(harness.keys.dag(dag[-26:]), "spent", 500_001)

    assert await claimed(harness) == []
    await harness.queue.dags.set_budget(dag, 0.500001)

    assert len(await claimed(harness)) == 1


async def budget_events(harness: Harness) -> list[tuple[str, str]]:
    """The events of budgets."""
    entries = await harness.client.xrange(harness.keys.events())
    return [
        (fields[b"event"].decode(), fields[b"detail"].decode())
        for _, fields in entries
        if fields[b"event"].startswith(b"budget")
    ]


async def test_an_exhausted_dag_budget_is_emitted_once(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.4, 0.4, 0.4, budget=0.5)
    (lease,) = await started(harness)
    await harness.promoter.tick()
    assert await budget_events(harness) == [], "a leased task may be refunded"

    await harness.queue.dags.set_budget(dag, 0.41)
    await lease.complete()
    await harness.client.hset(harness.keys.dag(dag[-26:]), "spent", 400_000)
    for _ in range(3):
        await claimed(harness)
        await harness.promoter.tick()

    assert await budget_events(harness) == [("budget.exhausted", "dag")]


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_exhausted_budgets_of_day_and_worker_are_emitted_once(
    harness: Harness, worker: str | None
) -> None:
    await harness.queue.budgets.set(0.1, worker=worker)
    await costing(harness, 0.5)
    for _ in range(3):
        await claimed(harness)
        await harness.promoter.tick()

    assert await budget_events(harness) == [("budget.exhausted", "worker" if worker else "day")]
