"""register: a worker and what it offers; forgotten without a heartbeat before its lease ends."""

from __future__ import annotations

from rqueue.core.workers import Registration, drain, register
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.registered import OFFER, age, register_worker


async def test_a_worker_is_stored_with_what_it_offers(harness: Harness) -> None:
    assert not await register_worker(harness, "w1", "w1/a")

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers"}
    (field, value), *others = found["worker:w1"].items()
    seen, until, reply = value.split(" ", 2)
    assert (field, others) == ("run:w1/a", [])
    assert int(until) - int(seen) == 30_000
    assert Registration.parse(reply) == OFFER
    assert found["workers"] == {"w1": float(seen)}


async def test_a_repeated_call_only_renews(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await age(harness, "w1", "w1/a", by_ms=20_000)

    assert not await register_worker(harness, "w1", "w1/a")

    found = await everything(harness)
    seen, until, _ = found["worker:w1"]["run:w1/a"].split(" ", 2)
    assert int(until) - int(seen) == 30_000
    assert list(found["worker:w1"]) == ["run:w1/a"]


async def test_two_runs_may_share_a_name(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await register_worker(harness, "w1", "w1/b")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a", "run:w1/b"}


async def test_a_run_silent_for_longer_than_its_lease_is_removed(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")
    await register_worker(harness, "w1", "w1/b")
    await age(harness, "w1", "w1/a", by_ms=30_001)
    await harness.client.hset(harness.keys.worker("w1"), "alone", "a task")

    await register_worker(harness, "w1", "w1/c")

    found = await everything(harness)
    assert set(found["worker:w1"]) == {"run:w1/b", "run:w1/c", "alone"}


async def test_a_worker_that_returns_has_not_left(harness: Harness) -> None:
    await harness.client.hset(harness.keys.worker("w1"), "left", "1")

    await register_worker(harness, "w1", "w1/a")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a"}


async def test_a_drained_run_gets_draining_each_time(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")

    draining = [
        await register(harness.queue._internals.shard, "w1", run, OFFER)
        for run in ("w1/a", "w1/b", "w1/a")
    ]

    assert draining == [True, False, True]


async def test_unreadable_runs_under_its_name_are_removed(harness: Harness) -> None:
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/x", b"\xff nonsense")

    await register_worker(harness, "w1", "w1/a")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a"}
