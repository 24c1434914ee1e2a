"""fail and reap: the record of an attempt has its duration and cost, by the server's clock."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.notes import note
from rqueue.errors import LeaseLost
from rqueue.task.attempt.verdict import Report
from rqueue.task.task import Note
from tests.harness import Harness


async def spend(harness: Harness, lease: Lease, usd: float, tokens: int, *, seq: int = 1) -> None:
    reply = Note(usd=usd, tokens_in=tokens, tokens_out=1)
    await note(harness.queue._internals.shard, lease.held, reply, seq=seq)


async def begun_before(harness: Harness, lease: Lease, seconds: int) -> None:
    """Moves the start of an attempt into the past."""
    key = harness.keys.task(lease.id.ulid)
    claimed, started, owner = (await harness.client.hget(key, "holder")).decode().split(" ")
    earlier = int(started) - 1000 * seconds if started != "0" else 0
    line = f"{int(claimed) - 1000 * seconds} {earlier} {owner}"
    await harness.client.hset(key, "holder", line)


async def next_attempt(harness: Harness, lease: Lease) -> Lease:
    await harness.queue.run_now(lease.id)
    (again,) = await harness.queue.claim(worker="w2", types=["code"])
    await again.start()
    return again


async def records(harness: Harness, task: str) -> list[tuple[Any, ...]]:
    history = (await harness.task(task)).failure_history
    return [(one.agent, one.duration_sec, one.cost_usd, one.tokens) for one in history]


async def test_each_attempt_has_its_own_time_and_cost(harness: Harness) -> None:
    lease = await harness.running(max_attempts=9)
    await begun_before(harness, lease, 60)
    await spend(harness, lease, 0.5, 10)
    await spend(harness, lease, 0.25, 10, seq=2)
    await lease.fail("error", "no")
    again = await next_attempt(harness, lease)
    await begun_before(harness, again, 5)
    await spend(harness, again, 1.5, 3)
    await again.fail("error", "no", permanent=True)

    first, second = await records(harness, lease.id)

    assert first == ("w1", pytest.approx(60, abs=3), 0.75, 22)
    assert second == ("w2", pytest.approx(5, abs=3), 1.5, 4)
    assert (await harness.task(lease.id)).cost_usd == 2.25


@pytest.mark.parametrize("chosen", [None, "worker"])
async def test_each_attempt_has_the_model_that_it_reported(
    harness: Harness, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.worker.settle.Report", partial(Report, model=chosen))
    lease = await harness.running(max_attempts=9)
    await lease.spend(0.5, model="org/big:1")
    error = 'says ,"model":"no",'
    await lease.fail("error", error)
    again = await next_attempt(harness, lease)
    await again.spend(0.25)
    await again.fail("error", error)

    first, second = (await harness.task(lease.id)).failure_history

    assert (first.model, first.error) == ("org/big:1", error)
    assert (second.model, second.cost_usd) == (chosen, 0.25)


async def test_a_task_that_was_not_started_is_timed_from_its_claim(harness: Harness) -> None:
    lease = await harness.claimed()
    await begun_before(harness, lease, 30)

    await lease.fail("error", "no", permanent=True)

    assert await records(harness, lease.id) == [("w1", pytest.approx(30, abs=3), 0.0, 0)]


async def test_a_lost_worker_leaves_its_time_and_cost_too(harness: Harness) -> None:
    await harness.reaper.tick()
    lease = await harness.running(max_attempts=9)
    await begun_before(harness, lease, 90)
    await spend(harness, lease, 0.5, 1)
    await harness.age(lease, 90)

    await harness.reaper.tick()

    assert await records(harness, lease.id) == [("w1", pytest.approx(90, abs=3), 0.5, 2)]


async def test_the_late_cost_of_a_lost_run_is_not_that_of_the_next_attempt(
    harness: Harness,
) -> None:
    await harness.reaper.tick()
    lease = await harness.running(max_attempts=9)
    await harness.age(lease, 90)
    await harness.reaper.tick()
    again = await next_attempt(harness, lease)

    with pytest.raises(LeaseLost):
        await spend(harness, lease, 4.0, 1)
    await spend(harness, again, 0.25, 1)
    await again.fail("error", "no", permanent=True)

    assert [cost for _, _, cost, _ in await records(harness, lease.id)] == [0.0, 0.25]
    assert (await harness.task(lease.id)).cost_usd == 4.25


async def test_a_new_life_does_not_include_the_cost_of_the_one_before(harness: Harness) -> None:
    lease = await harness.running()
    await spend(harness, lease, 1.0, 1)
    await lease.fail("error", "no", permanent=True)
    await harness.queue.dead.retry(lease.id)
    (again,) = await harness.queue.claim(worker="w1", types=["code"])

    await again.fail("error", "no", permanent=True)

    assert [cost for _, _, cost, _ in await records(harness, lease.id)] == [1.0, 0.0]


@pytest.mark.parametrize("holder", ["", "broken", "x y z"])
async def test_a_broken_holder_does_not_prevent_the_failure(harness: Harness, holder: str) -> None:
    lease = await harness.running(max_attempts=9)
    await harness.client.hset(harness.keys.task(lease.id.ulid), "holder", holder)

    await lease.fail("error", "no")

    assert [took for _, took, _, _ in await records(harness, lease.id)] == [0.0]
