"""fail and reap: the record of an attempt says how long it took and what it cost, by the server."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import LeaseLost
from rqueue.model.note import Note
from rqueue.policy.verdict import Report
from rqueue.store.notes import note
from tests.house import House


async def spend(house: House, lease: Lease, usd: float, tokens: int, *, seq: int = 1) -> None:
    said = Note(usd=usd, tokens_in=tokens, tokens_out=1)
    await note(house.queue.shard, lease.held, said, seq=seq)


async def begun_before(house: House, lease: Lease, seconds: int) -> None:
    """Lets an attempt look as if it had begun so long ago."""
    key = house.keys.task(lease.id.ulid)
    claimed, started, owner = (await house.client.hget(key, "holder")).decode().split(" ")
    earlier = int(started) - 1000 * seconds if started != "0" else 0
    line = f"{int(claimed) - 1000 * seconds} {earlier} {owner}"
    await house.client.hset(key, "holder", line)


async def next_attempt(house: House, lease: Lease) -> Lease:
    await house.queue.run_now(lease.id)
    (again,) = await house.queue.claim(worker="w2", types=["code"])
    await again.start()
    return again


async def records(house: House, task: str) -> list[tuple[Any, ...]]:
    history = (await house.task(task)).failure_history
    return [(one.agent, one.duration_sec, one.cost_usd, one.tokens) for one in history]


async def test_each_attempt_has_its_own_time_and_cost(house: House) -> None:
    lease = await house.running(max_attempts=9)
    await begun_before(house, lease, 60)
    await spend(house, lease, 0.5, 10)
    await spend(house, lease, 0.25, 10, seq=2)
    await lease.fail("error", "no")
    again = await next_attempt(house, lease)
    await begun_before(house, again, 5)
    await spend(house, again, 1.5, 3)
    await again.fail("error", "no", permanent=True)

    first, second = await records(house, lease.id)

    assert first == ("w1", pytest.approx(60, abs=3), 0.75, 22)
    assert second == ("w2", pytest.approx(5, abs=3), 1.5, 4)
    assert (await house.task(lease.id)).cost_usd == 2.25


@pytest.mark.parametrize("chosen", [None, "worker"])
async def test_each_attempt_has_the_model_that_it_named(
    house: House, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.client.settler.Report", partial(Report, model=chosen))
    lease = await house.running(max_attempts=9)
    await lease.spend(0.5, model="org/big:1")
    error = 'says ,"model":"no",'
    await lease.fail("error", error)
    again = await next_attempt(house, lease)
    await again.spend(0.25)
    await again.fail("error", error)

    first, second = (await house.task(lease.id)).failure_history

    assert (first.model, first.error) == ("org/big:1", error)
    assert (second.model, second.cost_usd) == (chosen, 0.25)


async def test_one_that_was_not_started_is_timed_from_its_claim(house: House) -> None:
    lease = await house.claimed()
    await begun_before(house, lease, 30)

    await lease.fail("error", "no", permanent=True)

    assert await records(house, lease.id) == [("w1", pytest.approx(30, abs=3), 0.0, 0)]


async def test_a_lost_worker_leaves_its_time_and_cost_too(house: House) -> None:
    await house.reaper.tick()
    lease = await house.running(max_attempts=9)
    await begun_before(house, lease, 90)
    await spend(house, lease, 0.5, 1)
    await house.age(lease, 90)

    await house.reaper.tick()

    assert await records(house, lease.id) == [("w1", pytest.approx(90, abs=3), 0.5, 2)]


async def test_what_a_lost_run_says_later_is_not_the_next_attempts(house: House) -> None:
    await house.reaper.tick()
    lease = await house.running(max_attempts=9)
    await house.age(lease, 90)
    await house.reaper.tick()
    again = await next_attempt(house, lease)

    with pytest.raises(LeaseLost):
        await spend(house, lease, 4.0, 1)
    await spend(house, again, 0.25, 1)
    await again.fail("error", "no", permanent=True)

    assert [cost for _, _, cost, _ in await records(house, lease.id)] == [0.0, 0.25]
    assert (await house.task(lease.id)).cost_usd == 4.25


async def test_a_new_life_does_not_pay_for_the_one_before(house: House) -> None:
    lease = await house.running()
    await spend(house, lease, 1.0, 1)
    await lease.fail("error", "no", permanent=True)
    await house.queue.revive(lease.id)
    (again,) = await house.queue.claim(worker="w1", types=["code"])

    await again.fail("error", "no", permanent=True)

    assert [cost for _, _, cost, _ in await records(house, lease.id)] == [1.0, 0.0]


@pytest.mark.parametrize("holder", ["", "broken", "x y z"])
async def test_a_broken_holder_is_no_hindrance(house: House, holder: str) -> None:
    lease = await house.running(max_attempts=9)
    await house.client.hset(house.keys.task(lease.id.ulid), "holder", holder)

    await lease.fail("error", "no")

    assert [took for _, took, _, _ in await records(house, lease.id)] == [0.0]
