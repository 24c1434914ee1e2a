"""register: who works here, and is heard of again before a lease is over; else it is forgotten."""

from __future__ import annotations

from rqueue.core.workers import Registration, drain, register
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.crew import SAID, age, enrol


async def test_a_worker_is_kept_with_what_it_says(harness: Harness) -> None:
    assert not await enrol(harness, "w1", "w1/a")

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers"}
    (field, value), *others = found["worker:w1"].items()
    seen, until, said = value.split(" ", 2)
    assert (field, others) == ("run:w1/a", [])
    assert int(until) - int(seen) == 30_000
    assert Registration.parse(said) == SAID
    assert found["workers"] == {"w1": float(seen)}


async def test_sent_again_it_only_renews(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await age(harness, "w1", "w1/a", by_ms=20_000)

    assert not await enrol(harness, "w1", "w1/a")

    found = await everything(harness)
    seen, until, _ = found["worker:w1"]["run:w1/a"].split(" ", 2)
    assert int(until) - int(seen) == 30_000
    assert list(found["worker:w1"]) == ["run:w1/a"]


async def test_two_may_run_under_one_name(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await enrol(harness, "w1", "w1/b")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a", "run:w1/b"}


async def test_one_that_was_silent_for_longer_than_its_lease_is_forgotten(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")
    await enrol(harness, "w1", "w1/b")
    await age(harness, "w1", "w1/a", by_ms=30_001)
    await harness.client.hset(harness.keys.worker("w1"), "alone", "a task")

    await enrol(harness, "w1", "w1/c")

    found = await everything(harness)
    assert set(found["worker:w1"]) == {"run:w1/b", "run:w1/c", "alone"}


async def test_one_that_comes_back_has_not_left(harness: Harness) -> None:
    await harness.client.hset(harness.keys.worker("w1"), "left", "1")

    await enrol(harness, "w1", "w1/a")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a"}


async def test_one_that_is_to_drain_is_told_each_time(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1")

    told = [
        await register(harness.queue._internals.shard, "w1", run, SAID)
        for run in ("w1/a", "w1/b", "w1/a")
    ]

    assert told == [True, False, True]


async def test_broken_bytes_under_its_name_are_forgotten(harness: Harness) -> None:
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/x", b"\xff nonsense")

    await enrol(harness, "w1", "w1/a")

    assert set((await everything(harness))["worker:w1"]) == {"run:w1/a"}
