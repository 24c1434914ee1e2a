"""list: who works here, as far as anything is known of them; nothing is written."""

from __future__ import annotations

from rqueue.core.workers import drain, leave, read_fleet
from tests.harness import Harness
from tests.lua.worker.crew import SAID, age, enrol


async def test_before_the_first_worker_there_is_nobody(harness: Harness) -> None:
    assert await read_fleet(harness.queue._internals.shard) == []
    assert await harness.dump() == {}


async def test_everyone_is_there_the_last_heard_of_first(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await enrol(harness, "w1", "w1/b")
    await age(harness, "w1", "w1/b", by_ms=60_000)
    await drain(harness.queue._internals.shard, "w1")
    await harness.queue.claim(worker="w2")
    await enrol(harness, "w3", "w3/a")
    await leave(harness.queue._internals.shard, "w3", "w3/a")
    for at, name in enumerate(("w3", "w2", "w1")):
        await harness.client.zadd(harness.keys.workers(), {name: at})
    before = await harness.dump()

    first, second, third = await read_fleet(harness.queue._internals.shard)

    assert (first.name, second.name, third.name) == ("w1", "w2", "w3")
    assert [(run.id, run.drain_requested, run.registration) for run in first.runs] == [
        ("w1/a", True, SAID), ("w1/b", False, SAID),
    ]  # fmt: skip
    assert [run.silent_ms > run.lease_ms for run in first.runs] == [False, True]
    assert (second.runs, second.left, third.runs, third.left) == ([], False, [], True)
    assert await harness.dump() == before


async def test_it_is_bounded(harness: Harness) -> None:
    await harness.client.zadd(harness.keys.workers(), {f"w{at}": at for at in range(5)})

    found = await read_fleet(harness.queue._internals.shard, limit=2)

    assert [one.name for one in found] == ["w4", "w3"]


async def test_broken_bytes_are_a_run_that_is_gone(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/a", b"soon \xff {")
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/b", b"1 99999999999999 {")

    ((first, second),) = [one.runs for one in await read_fleet(harness.queue._internals.shard)]

    assert first.silent_ms > first.lease_ms
    assert (first.registration, second.registration) == (None, None)
