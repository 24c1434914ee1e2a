"""Many DAGs with budget again: each call returns a bounded number of tasks, and none is left."""

from __future__ import annotations

import asyncio

from rqueue.core.leases import Settled, complete
from rqueue.core.timers import promote
from rqueue.store.library import Argument
from rqueue.store.shard import UNPAID_LIMIT
from tests.harness import Harness
from tests.lua.budget.accounts import claimed
from tests.lua.budget.test_dag_budgets import dag_of_tasks, started
from tests.lua.task.keyspace import run_move

TERMS: dict[str, Argument] = {
    "limit": 100, "tries": 100, "events": 1000, "woken": 100, "back": 7,
}  # fmt: skip


async def short(harness: Harness, dags: int, each: int) -> list[str]:
    """DAGs that could pay none of their tasks and can now; not processed yet."""
    found = await asyncio.gather(
        *(dag_of_tasks(harness, *[0.4] * each, budget=0.1) for _ in range(dags))
    )
    while await harness.client.zcard(harness.keys.lane(1)):
        assert await claimed(harness) == []
    names = [dag[-26:] for dag, _ in found]
    for dag in names:
        await harness.client.hset(harness.keys.dag(dag), "budget", 900_000_000)
    return names


async def unpaid(harness: Harness) -> int:
    return (await harness.queue.budgets.list()).unpaid


async def test_one_call_returns_no_more_tasks_than_its_limit(harness: Harness) -> None:
    dags = await short(harness, 12, 3)
    left, calls = await unpaid(harness), 0
    assert left == 36

    more = 1
    while more:
        _, more, _, _ = await run_move(harness, "task/promote", TERMS)
        now, calls = await unpaid(harness), calls + 1
        assert 0 <= left - now <= 7
        left = now

    assert (left, calls) == (0, 6)
    assert await harness.client.zcard(harness.keys.lane(1)) == 36
    assert not await harness.client.exists(harness.keys.short(), harness.keys.wakes())
    assert not await harness.client.exists(*(harness.keys.unpaid(dag) for dag in dags))


async def test_dags_without_held_tasks_count_against_the_limit(harness: Harness) -> None:
    for at in range(20):
        await harness.client.zadd(harness.keys.wakes(), {f"$01HZZZZZZZZZZZZZZZZZZZZZ{at:02}": 0})

    reply = await run_move(harness, "task/promote", TERMS)

    assert reply == ["OK", 1, 0, "0"]
    assert await harness.client.zcard(harness.keys.wakes()) == 13


async def test_a_tick_returns_all_held_tasks(harness: Harness) -> None:
    await short(harness, UNPAID_LIMIT + 50, 1)
    await promote(harness.queue._internals.shard)
    assert await unpaid(harness) >= 50

    for _ in range(4):
        await harness.promoter.tick()

    assert await unpaid(harness) == 0
    assert await harness.client.zcard(harness.keys.lane(1)) == UNPAID_LIMIT + 50


async def test_a_gate_that_is_due_is_not_delayed_by_them(harness: Harness) -> None:
    await short(harness, 5, 2)
    await harness.queue.limits.open_breaker("code", 0)

    await run_move(harness, "task/promote", TERMS | {"woken": 2, "back": 1})

    assert await harness.client.zscore(harness.keys.wakes(), "code") is None
    assert await unpaid(harness) == 9


async def test_completions_of_one_call_return_at_most_a_hundred_tasks(
    harness: Harness,
) -> None:
    for _ in range(3):
        await dag_of_tasks(harness, 0.5, *[0.01] * 60, budget=0.5)
    leases = await started(harness, 3)
    assert [lease.task.spec.estimated_cost_usd for lease in leases] == [0.5] * 3
    while await harness.client.zcard(harness.keys.lane(2)):
        await claimed(harness)
    assert await unpaid(harness) == 180

    rows = [Settled(lease.id.ulid, lease.token, b"") for lease in leases]
    await complete(harness.queue._internals.shard, rows)
    assert 80 <= await unpaid(harness) <= 82
    await harness.promoter.tick()

    assert await unpaid(harness) <= 30
