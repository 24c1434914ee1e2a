"""DAGs in memory: built, run, failed, retried, paused, extended and followed, as on a server."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Context, State
from rqueue.dags import store as dag_store
from rqueue.errors import DagNotFound, InvalidGraph
from rqueue.task.dag import OnFailure
from rqueue.testing import Memory
from tests.testing.shop import Shop


def states(held: Memory) -> list[State]:
    return [task.state for task in held.tasks()]


async def test_outputs_flow_along_the_edges(shop: Shop, held: Memory) -> None:
    async with shop.queue.dag("sum") as dag:
        first = dag.add(shop.plain.call(1))
        second = dag.add(shop.plain.call(first.output))
        dag.add(shop.plain.call(10), after=[second])

    await held.run_until_idle()

    assert shop.seen == [1, 2, 10]
    assert ((await dag.status()).status, (await dag.status()).total) == ("completed", 3)
    assert await second.result() == 3


async def test_a_dag_is_refused_as_a_whole(shop: Shop, held: Memory) -> None:
    gone = await shop.plain.enqueue(0)
    await gone.cancel()
    held.advance(shop.queue.settings.result_ttl_sec + 1)
    dag = shop.queue.dag("torn")
    dag.add(shop.plain.call(1))
    dag.add(shop.plain.call(2), after=[gone])

    with pytest.raises(
        InvalidGraph, match=r"^depends on a task that does not exist or was cancelled: "
    ):
        await dag.submit()

    assert held.tasks() == []
    assert [found async for found in dag_store.walk(held.queue._internals.shard)] == []


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("hold", ["DEAD_LETTERED", "COMPLETED", "PENDING", "PENDING"]),
        ("continue", ["DEAD_LETTERED", "COMPLETED", "CANCELLED", "COMPLETED"]),
        ("fail_fast", ["DEAD_LETTERED", "CANCELLED", "CANCELLED", "CANCELLED"]),
    ],
)
async def test_a_death_has_the_effect_that_the_dag_configures(
    shop: Shop, held: Memory, policy: OnFailure, left: list[str]
) -> None:
    async with shop.queue.dag("fails", on_failure=policy) as dag:
        bad = dag.add(shop.refuse.call(), priority=1)
        child = dag.add(shop.plain.call(1), after=[bad])
        dag.add(shop.plain.call(2))
        dag.add(shop.plain.call(3), after=[child], trigger="all_done")

    await held.run_until_idle()

    assert states(held) == left
    assert (await dag.status()).status == "failed"


async def test_retrying_a_dead_task_resumes_its_dag(shop: Shop, held: Memory) -> None:
    good: list[bool] = []

    @shop.queue.task("once", max_attempts=1)
    async def once() -> int:
        if not good:
            raise ValueError("not yet")
        return 1

    async with shop.queue.dag("revived") as dag:
        first = dag.add(once.call())
        dag.add(shop.plain.call(first.output))
    await held.run_until_idle()
    good.append(True)

    await shop.queue.dead.retry(first.id)
    await held.run_until_idle()

    assert ((await dag.status()).status, shop.seen) == ("completed", [1])


async def test_a_task_that_waits_for_a_failure_runs_after_the_first(
    shop: Shop, held: Memory
) -> None:
    async with shop.queue.dag("alarm") as dag:
        bad, fine = dag.add(shop.refuse.call()), dag.add(shop.plain.call(1))
        dag.add(shop.plain.call(2), after=[bad, fine], trigger="one_failed")
        dag.add(shop.plain.call(3), after=[fine], trigger="one_failed")

    await held.run_until_idle()

    assert sorted(shop.seen) == [1, 2]
    assert states(held)[3] == State.CANCELLED


async def test_a_paused_dag_runs_when_it_is_resumed(shop: Shop, held: Memory) -> None:
    async with shop.queue.dag("paused") as dag:
        dag.add(shop.plain.call(1))
    await dag.pause()
    assert await held.run_until_idle() == []

    await dag.resume()

    assert len(await held.run_until_idle()) == 1


async def test_a_parent_waits_for_its_children(shop: Shop, held: Memory) -> None:
    @shop.queue.task("parent_of_two", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        return await ctx.gather(shop.plain.call(1), shop.plain.call(2))

    handle = await parent.enqueue()
    await held.run_until_idle()

    assert await handle.result() == [2, 3]
    dag = (await handle.task()).dag_id
    assert (await dag_store.read(held.queue._internals.shard, dag)).status == "completed"


async def test_one_dag_follows_another_once(shop: Shop, held: Memory) -> None:
    following = shop.queue.dag("second")
    following.add(shop.plain.call(2))
    async with shop.queue.dag("first", on_complete=following) as dag:
        dag.add(shop.plain.call(1))

    await held.run_until_idle()

    assert shop.seen == [1, 2]
    assert [(await one.status()).status for one in (dag, following)] == ["completed"] * 2


async def test_a_task_joins_the_dag_of_its_first_dependency(shop: Shop, held: Memory) -> None:
    parent = await shop.plain.enqueue(1)
    child = await shop.plain.options(depends_on=[parent.id]).enqueue(2)

    await held.run_until_idle()

    assert shop.seen == [1, 2]
    assert (await shop.queue.get(child.id)).dag_id.ulid == parent.id.ulid


async def test_an_ended_dag_expires(shop: Shop, held: Memory) -> None:
    async with shop.queue.dag("short") as dag:
        dag.add(shop.plain.call(1))
    await held.run_until_idle()

    held.advance(shop.queue.settings.result_ttl_sec + 1)

    assert held.tasks() == []
    with pytest.raises(DagNotFound):
        await dag.status()
