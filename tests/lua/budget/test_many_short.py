"""Many DAGs that can pay again: each call brings back so many of their tasks, and none is left."""

from __future__ import annotations

import asyncio

from rqueue.store.leases import Settled, complete
from rqueue.store.passage import promote
from rqueue.store.scripts import Argument
from rqueue.store.shard import PAID
from tests.house import House
from tests.lua.budget.purse import claimed
from tests.lua.budget.test_dag_budgets import planted, started
from tests.lua.task.afterwards import ask

TERMS: dict[str, Argument] = {
    "limit": 100, "tries": 100, "events": 1000, "woken": 100, "back": 7,
}  # fmt: skip


async def short(house: House, dags: int, each: int) -> list[str]:
    """DAGs that could not pay any of their tasks, and can now: nobody has looked yet."""
    found = await asyncio.gather(*(planted(house, *[0.4] * each, budget=0.1) for _ in range(dags)))
    while await house.client.zcard(house.keys.lane(1)):
        assert await claimed(house) == []
    names = [dag[-26:] for dag, _ in found]
    for dag in names:
        await house.client.hset(house.keys.dag(dag), "budget", 900_000_000)
    return names


async def unpaid(house: House) -> int:
    return (await house.queue.budgets()).unpaid


async def test_one_call_brings_back_no_more_than_it_may(house: House) -> None:
    dags = await short(house, 12, 3)
    left, calls = await unpaid(house), 0
    assert left == 36

    more = 1
    while more:
        _, more, _, _ = await ask(house, "task/promote", TERMS)
        now, calls = await unpaid(house), calls + 1
        assert 0 <= left - now <= 7
        left = now

    assert (left, calls) == (0, 6)
    assert await house.client.zcard(house.keys.lane(1)) == 36
    assert not await house.client.exists(house.keys.short(), house.keys.wakes())
    assert not await house.client.exists(*(house.keys.unpaid(dag) for dag in dags))


async def test_dags_of_which_nothing_is_left_count_as_well(house: House) -> None:
    for at in range(20):
        await house.client.zadd(house.keys.wakes(), {f"$01HZZZZZZZZZZZZZZZZZZZZZ{at:02}": 0})

    said = await ask(house, "task/promote", TERMS)

    assert said == ["OK", 1, 0, "0"]
    assert await house.client.zcard(house.keys.wakes()) == 13


async def test_a_tick_brings_all_of_them_back(house: House) -> None:
    await short(house, PAID + 50, 1)
    await promote(house.queue.shard)
    assert await unpaid(house) >= 50

    for _ in range(4):
        await house.promoter.tick()

    assert await unpaid(house) == 0
    assert await house.client.zcard(house.keys.lane(1)) == PAID + 50


async def test_a_gate_whose_time_has_come_does_not_wait_for_them(house: House) -> None:
    await short(house, 5, 2)
    await house.queue.open_breaker("code", 0)

    await ask(house, "task/promote", TERMS | {"woken": 2, "back": 1})

    assert await house.client.zscore(house.keys.wakes(), "code") is None
    assert await unpaid(house) == 9


async def test_what_is_completed_together_brings_back_no_more_than_a_hundred(house: House) -> None:
    for _ in range(3):
        await planted(house, 0.5, *[0.01] * 60, budget=0.5)
    leases = await started(house, 3)
    assert [lease.task.spec.estimated_cost_usd for lease in leases] == [0.5] * 3
    while await house.client.zcard(house.keys.lane(2)):
        await claimed(house)
    assert await unpaid(house) == 180

    rows = [Settled(lease.id.ulid, lease.token, b"") for lease in leases]
    await complete(house.queue.shard, rows)
    assert 80 <= await unpaid(house) <= 82
    await house.promoter.tick()

    assert await unpaid(house) <= 30
