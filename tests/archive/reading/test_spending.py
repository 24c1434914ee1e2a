"""Spending and agent events by agent, worker, model and time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from rqueue import Context, Lease, State
from rqueue.archive import reports as eventing
from rqueue.errors import InvalidTask
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.postgres import Database
from tests.servers import Server
from tests.worker.running import ended as done
from tests.worker.running import working


async def again(env: ReaderHarness, lease: Lease, worker: str) -> Lease:
    """Returns the lease of the next attempt of a failed task."""
    await env.harness.make_due(lease.id)
    await env.harness.promoter.tick()
    (found,) = await env.queue.claim(worker=worker)
    await found.start()
    return found


async def sums(env: ReaderHarness, *by: Any, **wanted: Any) -> list[tuple[Any, ...]]:
    found = await env.queue.archive.spend(by, **wanted)
    return [(*(getattr(one, name) for name in by), one.cost_usd, one.tokens) for one in found]


@pytest.mark.parametrize(
    "wanted",
    [{"by": "colour"}, {"by": ["type", ""]}, {"since": "x"}, {"type": "a b"}, {"limit": 0}],
)
async def test_invalid_groups_are_refused(pg_env: ReaderHarness, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        await pg_env.queue.archive.spend(**wanted)


async def test_without_costs_there_is_no_total(env: ReaderHarness) -> None:
    await env.completed()
    await env.archive()

    assert await sums(env, "type") == []
    assert await sums(env) == []


async def test_each_cost_is_counted_once_in_its_group(env: ReaderHarness) -> None:
    lease = await env.lease("code", max_attempts=3)
    await lease.spend(0.5, tokens_in=10, model="big")
    await lease.fail("error", "no")
    second = await again(env, lease, "w2")
    await second.spend(0.25, tokens_out=5, model="small")
    await second.complete()
    other = await env.lease("review", agent_name="Judge")
    await other.spend(1, tokens_in=1)
    await other.complete()
    await env.archive()

    assert await sums(env) == [(Decimal("1.75"), 16)]
    assert await sums(env, "type") == [("review", 1, 1), ("code", Decimal("0.75"), 15)]
    assert await sums(env, "agent") == [
        ("Judge", 1, 1), ("w1", Decimal("0.5"), 10), ("w2", Decimal("0.25"), 5),
    ]  # fmt: skip
    assert await sums(env, "worker", type="code") == [
        ("w1", Decimal("0.5"), 10), ("w2", Decimal("0.25"), 5),
    ]  # fmt: skip
    assert await sums(env, "model") == [
        (None, 1, 1), ("big", Decimal("0.5"), 10), ("small", Decimal("0.25"), 5),
    ]  # fmt: skip


async def test_lives_add_up_without_counting_costs_twice(env: ReaderHarness) -> None:
    lease = await env.lease()
    await lease.spend(0.5, tokens_in=10)
    await lease.fail("error", "no", permanent=True)
    await env.archive()
    await env.queue.dead.retry(lease.id)
    (second,) = await env.queue.claim(worker="w2")
    await second.start()
    await second.spend(0.25, tokens_in=3)
    await second.complete()
    await env.archive()

    assert await sums(env) == [(Decimal("0.75"), 13)]
    ((cost,),) = env.sql("SELECT cost_usd FROM tasks")
    assert cost == Decimal("0.75")
    found = env.sql(
        "SELECT outcome, sum(cost_usd), sum(tokens) FROM attempts GROUP BY outcome ORDER BY outcome"
    )
    assert ("completed", Decimal("0.25"), Decimal(3)) in found


async def test_days_are_those_of_utc_and_bounded_by_the_hour(env: ReaderHarness) -> None:
    for _ in range(2):
        lease = await env.lease()
        await lease.spend(0.5)
        await lease.complete()
    await env.archive()
    late, early = env.sql("SELECT id FROM rqueue.task_lives ORDER BY id DESC")
    move = "UPDATE rqueue.task_lives SET finished_at = %s WHERE id = %s"
    env.sql(move, "2026-03-02T00:30:00Z", late[0])
    env.sql(move, "2026-03-01T23:30:00Z", early[0])

    half = Decimal("0.5")
    assert await sums(env, "day") == [("2026-03-02", half, 0), ("2026-03-01", half, 0)]
    assert await sums(env, "day", until="2026-03-02T00:00:00Z") == [("2026-03-01", half, 0)]
    assert await sums(env, "type", "day", limit=1) == [("code", "2026-03-02", half, 0)]
    assert await sums(env, "day", since="2026-03-03T00:00:00Z") == []


async def test_a_cost_is_stored_with_its_model(pg_env: ReaderHarness) -> None:
    queue = pg_env.queue

    @queue.task("think", model_preferences=["sage"])
    async def think(ctx: Context) -> None:
        await ctx.progress(1)
        await ctx.spend(0.125, tokens_out=2)

    handle = await queue.enqueue("think")
    async with working(queue, models=["sage"]):
        await handle.result(timeout=20)
    await pg_env.archive()

    assert await sums(pg_env, "model", "type") == [("sage", "think", Decimal("0.125"), 2)]


async def test_a_handler_can_name_its_model(pg_env: ReaderHarness) -> None:
    queue = pg_env.queue

    @queue.task("think", model_preferences=["sage"], max_attempts=1)
    async def think(ctx: Context, fails: bool) -> None:
        await ctx.spend(0.125, tokens_out=2, model="oracle/2")
        if fails:
            raise ValueError("no")

    async with working(queue, models=["sage"]):
        await (await think.enqueue(fails=False)).result(timeout=20)
        await done(queue, (await think.enqueue(fails=True)).id, State.DEAD_LETTERED)
    await pg_env.archive()

    assert await sums(pg_env, "model") == [("oracle/2", Decimal("0.25"), 4)]
    assert pg_env.sql("SELECT DISTINCT model FROM tasks") == [("oracle/2",)]


async def test_an_attempt_does_not_inherit_the_model_of_the_previous_one(
    env: ReaderHarness,
) -> None:
    lease = await env.lease("code", max_attempts=3)
    await lease.spend(0.5, model="big")
    await lease.fail("error", "no")
    second = await again(env, lease, "w2")
    await second.spend(0.25)
    await second.complete()
    await env.archive()

    half, quarter = Decimal("0.5"), Decimal("0.25")
    assert await sums(env, "model") == [("big", half, 0), (None, quarter, 0)]


async def test_events_list_the_ends_of_agents_tasks(
    valkey: Server, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reader_harness(valkey, postgres, agent_events=True) as env:
        monkeypatch.setattr(eventing, "PAGE", 2)
        lease = await env.lease(agent_name="FitmentAgent")
        await lease.spend(0.5, tokens_in=2, tokens_out=3, model="big")
        await lease.complete()
        dead = await env.dead(error="it broke")
        many = [(await env.completed()).id for _ in range(3)]
        await env.archive()

        async def found(**wanted: Any) -> list[Any]:
            return [event async for event in env.queue.archive.events(**wanted)]

        everything = await found()
        assert [event.task_id for event in everything] == [*reversed(many), dead.id, lease.id]
        (one,) = await found(agent="FitmentAgent")
        assert (one.event, one.cost_usd, one.model) == ("task.completed", Decimal("0.5"), "big")
        assert (one.tokens_input, one.tokens_output, one.life) == (2, 3, 1)
        (two,) = await found(task=str(dead.id.uuid))
        assert (two.event, two.agent, two.error) == ("task.dead_lettered", "w1", "it broke")
        assert two.at == dead.updated_at
        assert await found(until=one.at) == []
        assert len(await found(since=one.at, limit=4)) == 4
        assert await found(since=one.at + timedelta(days=1)) == []
        with pytest.raises(InvalidTask):
            await found(task="mine")
