"""Costs that runs tell when they have lost their lease: kept once, for the life and the worker that
had them, in whatever order and however often they reach the archive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import LeaseLost
from tests.archive.reading.library import Library, founded
from tests.archive.reading.test_spending import again, sums
from tests.postgres import Database
from tests.servers import Server

QUARTER = Decimal("0.25")


@pytest.fixture
async def counted(valkey: Server, postgres: Database) -> AsyncIterator[Library]:
    """A queue that has agent events written, too."""
    async with founded(valkey, postgres, agent_events=True) as found:
        yield found


async def late(lease: Lease, usd: float = 0.25, **cost: Any) -> None:
    """What a run says that has lost its lease."""
    with pytest.raises(LeaseLost):
        await lease.spend(usd, tokens_in=3, tokens_out=4, **cost)


async def reaped(library: Library, **options: Any) -> Lease:
    """A run whose worker was silent for too long."""
    await library.harness.reaper.tick()
    lease = await library.lease(**{"max_attempts": 1, **options})
    await library.harness.age(lease, 3600)
    await library.harness.reaper.tick()
    return lease


async def revived(library: Library, lease: Lease, worker: str = "w2") -> Lease:
    """The first run of the next life."""
    await library.queue.dead.retry(lease.id)
    (found,) = await library.queue.claim(worker=worker)
    await found.start()
    return found


def agreed(library: Library, lease: Lease) -> tuple[Any, ...]:
    """What a task has cost, as every table and view has it, once they all say the same."""
    asked = (
        "SELECT sum(cost_usd), sum(tokens) FROM spending WHERE task_id = %s",
        "SELECT cost_usd, tokens_input + tokens_output FROM tasks WHERE id = %s",
        "SELECT sum(cost_micro_usd) / 1000000.0, sum(tokens_input + tokens_output)"
        " FROM agent_events WHERE task_id = %s",
        "SELECT sum(cost_micro_usd) / 1000000.0, sum(tokens_input + tokens_output)"
        " FROM life_costs WHERE id = %s",
    )
    answers = {library.sql(each, lease.id.uuid)[0] for each in asked}
    assert len(answers) == 1
    return answers.pop()


def quarantined(library: Library) -> list[tuple[Any, ...]]:
    return library.sql("SELECT line, reason FROM quarantine")


async def test_a_cost_that_is_told_before_a_revival_is_the_life_befores(counted: Library) -> None:
    lease = await reaped(counted)
    await late(lease, model="big")
    await counted.queue.dead.retry(lease.id)

    await counted.archive()

    assert quarantined(counted) == []
    assert await sums(counted, "worker", "model") == [("w1", "big", QUARTER, 7)]
    assert agreed(counted, lease) == (QUARTER, 7)


@pytest.mark.parametrize("archived", [True, False])
async def test_a_cost_that_is_told_in_the_next_life_is_the_life_befores(
    counted: Library, archived: bool
) -> None:
    lease = await reaped(counted)
    if archived:
        await counted.archive()
    second = await revived(counted, lease)
    await late(lease)
    await second.spend(0.5, tokens_in=10)
    await second.complete()

    await counted.archive()

    assert quarantined(counted) == []
    assert await sums(counted, "worker") == [("w2", Decimal("0.5"), 10), ("w1", QUARTER, 7)]
    assert counted.sql(
        "SELECT life, cost_micro_usd, tokens_input, tokens_output FROM life_costs ORDER BY life"
    ) == [(1, 250_000, 3, 4), (2, 500_000, 10, 0)]
    assert agreed(counted, lease) == (Decimal("0.75"), 17)


async def test_a_run_of_two_lives_before_is_known_by_its_life(counted: Library) -> None:
    first = await reaped(counted)
    second = await revived(counted, first)
    await counted.harness.age(second, 3600)
    await counted.harness.reaper.tick()
    third = await revived(counted, second, "w3")
    await late(first, 1)
    await late(second, 2)
    await third.spend(4)
    await third.complete()

    await counted.archive()

    assert counted.sql("SELECT life, cost_micro_usd FROM life_costs ORDER BY life") == [
        (1, 1_000_000), (2, 2_000_000), (3, 4_000_000),
    ]  # fmt: skip
    assert agreed(counted, first) == (7, 14)


async def test_a_cost_is_kept_though_redis_has_forgotten_its_task(counted: Library) -> None:
    lease = await counted.lease()
    await counted.queue.cancel(lease.id)
    await counted.archive()
    await late(lease)
    await counted.harness.client.delete(
        counted.harness.keys.task(lease.id.ulid), counted.harness.keys.notes(lease.id.ulid)
    )

    await counted.archive()

    assert quarantined(counted) == []
    assert agreed(counted, lease) == (QUARTER, 7)
    found = await counted.queue.get(lease.id)
    assert (found.cost_usd, found.tokens_used.input, found.tokens_used.output) == (0.25, 3, 4)


async def test_a_cost_that_is_told_before_the_end_is_not_counted_twice(counted: Library) -> None:
    lease = await reaped(counted, max_attempts=3)
    second = await again(counted, lease, "w2")
    await late(lease)
    await second.spend(0.5, tokens_in=10)
    await counted.archive()
    assert await sums(counted) == []
    await second.complete()

    await counted.archive()

    assert await sums(counted, "worker") == [("w2", Decimal("0.5"), 10), ("w1", QUARTER, 7)]
    assert agreed(counted, lease) == (Decimal("0.75"), 17)


async def test_a_cost_that_is_told_before_the_archive_looks_is_not_counted_twice(
    counted: Library,
) -> None:
    lease = await counted.lease()
    await lease.spend(0.5, tokens_in=10)
    await counted.queue.cancel(lease.id)
    await late(lease)

    await counted.archive()

    assert agreed(counted, lease) == (Decimal("0.75"), 17)


async def test_a_dead_task_that_is_given_up_keeps_its_late_cost(counted: Library) -> None:
    lease = await reaped(counted)
    await counted.archive()
    await late(lease)
    await counted.queue.dead.discard(lease.id)

    await counted.archive()

    assert agreed(counted, lease) == (QUARTER, 7)
    assert counted.sql("SELECT event FROM agent_events") == [("task.cancelled",)]


@pytest.mark.parametrize("moved", [True, False])
async def test_each_life_shows_what_had_been_spent_till_its_end(
    counted: Library, moved: bool
) -> None:
    lease = await counted.lease(max_attempts=1)
    await lease.spend(1, tokens_in=10)
    await lease.fail("error", "no", permanent=True)
    second = await revived(counted, lease)
    await second.spend(2, tokens_in=5)
    await second.complete()
    await counted.archive()
    if moved:
        await counted.forget()

    found = await counted.queue.archive.lives(lease.id)

    assert [(one.state, one.cost_usd, one.tokens_used.input) for one in found] == [
        (State.COMPLETED, 3, 15), (State.DEAD_LETTERED, 1, 10),
    ]  # fmt: skip
    assert counted.sql("SELECT life, cost_micro_usd, tokens_input FROM task_lives ORDER BY life") \
        == [(1, 1_000_000, 10), (2, 2_000_000, 5)]  # fmt: skip
    (task,) = [await counted.queue.get(lease.id)]
    assert (task.cost_usd, task.tokens_used.input) == (3, 15)
