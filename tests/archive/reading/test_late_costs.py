"""Costs that are reported after a lost lease: they are stored once, for their life and worker, in
any order and however often they are delivered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import LeaseLost
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.archive.reading.test_spending import again, sums
from tests.postgres import Database
from tests.servers import Server

QUARTER = Decimal("0.25")


@pytest.fixture
async def env(valkey: Server, postgres: Database) -> AsyncIterator[ReaderHarness]:
    """A queue whose archive records agent events."""
    async with reader_harness(valkey, postgres, agent_events=True) as found:
        yield found


async def late(lease: Lease, usd: float = 0.25, **cost: Any) -> None:
    """Reports a cost of an attempt that has lost its lease."""
    with pytest.raises(LeaseLost):
        await lease.spend(usd, tokens_in=3, tokens_out=4, **cost)


async def reaped(env: ReaderHarness, **options: Any) -> Lease:
    """Returns the lease of an attempt that was reaped."""
    await env.harness.reaper.tick()
    lease = await env.lease(**{"max_attempts": 1, **options})
    await env.harness.age(lease, 3600)
    await env.harness.reaper.tick()
    return lease


async def revived(env: ReaderHarness, lease: Lease, worker: str = "w2") -> Lease:
    """Retries a dead task and returns the lease of its next attempt."""
    await env.queue.dead.retry(lease.id)
    (found,) = await env.queue.claim(worker=worker)
    await found.start()
    return found


def agreed(env: ReaderHarness, lease: Lease) -> tuple[Any, ...]:
    """Returns the cost of a task; asserts that all tables and views agree."""
    queries = (
        "SELECT sum(cost_usd), sum(tokens) FROM spending WHERE task_id = %s",
        "SELECT cost_usd, tokens_input + tokens_output FROM tasks WHERE id = %s",
        "SELECT sum(cost_micro_usd) / 1000000.0, sum(tokens_input + tokens_output)"
        " FROM agent_events WHERE task_id = %s",
        "SELECT sum(cost_micro_usd) / 1000000.0, sum(tokens_input + tokens_output)"
        " FROM life_costs WHERE id = %s",
    )
    answers = {env.sql(each, lease.id.uuid)[0] for each in queries}
    assert len(answers) == 1
    return answers.pop()


def quarantined(env: ReaderHarness) -> list[tuple[Any, ...]]:
    return env.sql("SELECT line, reason FROM quarantine")


async def test_a_late_cost_before_a_retry_belongs_to_the_earlier_life(
    env: ReaderHarness,
) -> None:
    lease = await reaped(env)
    await late(lease, model="big")
    await env.queue.dead.retry(lease.id)

    await env.archive()

    assert quarantined(env) == []
    assert await sums(env, "worker", "model") == [("w1", "big", QUARTER, 7)]
    assert agreed(env, lease) == (QUARTER, 7)


@pytest.mark.parametrize("archived", [True, False])
async def test_a_late_cost_during_the_next_life_belongs_to_the_earlier_life(
    env: ReaderHarness, archived: bool
) -> None:
    lease = await reaped(env)
    if archived:
        await env.archive()
    second = await revived(env, lease)
    await late(lease)
    await second.spend(0.5, tokens_in=10)
    await second.complete()

    await env.archive()

    assert quarantined(env) == []
    assert await sums(env, "worker") == [("w2", Decimal("0.5"), 10), ("w1", QUARTER, 7)]
    assert env.sql(
        "SELECT life, cost_micro_usd, tokens_input, tokens_output FROM life_costs ORDER BY life"
    ) == [(1, 250_000, 3, 4), (2, 500_000, 10, 0)]
    assert agreed(env, lease) == (Decimal("0.75"), 17)


async def test_late_costs_of_several_lives_belong_to_their_lives(env: ReaderHarness) -> None:
    first = await reaped(env)
    second = await revived(env, first)
    await env.harness.age(second, 3600)
    await env.harness.reaper.tick()
    third = await revived(env, second, "w3")
    await late(first, 1)
    await late(second, 2)
    await third.spend(4)
    await third.complete()

    await env.archive()

    assert env.sql("SELECT life, cost_micro_usd FROM life_costs ORDER BY life") == [
        (1, 1_000_000), (2, 2_000_000), (3, 4_000_000),
    ]  # fmt: skip
    assert agreed(env, first) == (7, 14)


async def test_a_late_cost_is_archived_after_its_task_expired(env: ReaderHarness) -> None:
    lease = await env.lease()
    await env.queue.cancel(lease.id)
    await env.archive()
    await late(lease)
    await env.harness.client.delete(
        env.harness.keys.task(lease.id.ulid), env.harness.keys.notes(lease.id.ulid)
    )

    await env.archive()

    assert quarantined(env) == []
    assert agreed(env, lease) == (QUARTER, 7)
    found = await env.queue.get(lease.id)
    assert (found.cost_usd, found.tokens_used.input, found.tokens_used.output) == (0.25, 3, 4)


async def test_a_late_cost_before_the_end_is_not_counted_twice(
    env: ReaderHarness,
) -> None:
    lease = await reaped(env, max_attempts=3)
    second = await again(env, lease, "w2")
    await late(lease)
    await second.spend(0.5, tokens_in=10)
    await env.archive()
    assert await sums(env) == []
    await second.complete()

    await env.archive()

    assert await sums(env, "worker") == [("w2", Decimal("0.5"), 10), ("w1", QUARTER, 7)]
    assert agreed(env, lease) == (Decimal("0.75"), 17)


async def test_a_late_cost_before_the_archiving_is_not_counted_twice(
    env: ReaderHarness,
) -> None:
    lease = await env.lease()
    await lease.spend(0.5, tokens_in=10)
    await env.queue.cancel(lease.id)
    await late(lease)

    await env.archive()

    assert agreed(env, lease) == (Decimal("0.75"), 17)


async def test_a_discarded_task_keeps_its_late_cost(env: ReaderHarness) -> None:
    lease = await reaped(env)
    await env.archive()
    await late(lease)
    await env.queue.dead.discard(lease.id)

    await env.archive()

    assert agreed(env, lease) == (QUARTER, 7)
    assert env.sql("SELECT event FROM agent_events") == [("task.cancelled",)]


@pytest.mark.parametrize("moved", [True, False])
async def test_each_life_shows_the_cost_up_to_its_end(env: ReaderHarness, moved: bool) -> None:
    lease = await env.lease(max_attempts=1)
    await lease.spend(1, tokens_in=10)
    await lease.fail("error", "no", permanent=True)
    second = await revived(env, lease)
    await second.spend(2, tokens_in=5)
    await second.complete()
    await env.archive()
    if moved:
        await env.forget()

    found = await env.queue.archive.lives(lease.id)

    assert [(one.state, one.cost_usd, one.tokens_used.input) for one in found] == [
        (State.COMPLETED, 3, 15), (State.DEAD_LETTERED, 1, 10),
    ]  # fmt: skip
    assert env.sql("SELECT life, cost_micro_usd, tokens_input FROM task_lives ORDER BY life") \
        == [(1, 1_000_000, 10), (2, 2_000_000, 5)]  # fmt: skip
    (task,) = [await env.queue.get(lease.id)]
    assert (task.cost_usd, task.tokens_used.input) == (3, 15)
