"""list: the registered workers; nothing is written."""

from __future__ import annotations

from rqueue.core.workers import drain, leave, read_fleet
from tests.harness import Harness
from tests.lua.worker.registered import OFFER, age, register_worker


async def test_before_the_first_worker_the_list_is_empty(harness: Harness) -> None:
    assert await read_fleet(harness.queue._internals.shard) == []
    assert await harness.dump() == {}


async def test_all_workers_are_listed_the_latest_heartbeat_first(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await register_worker(harness, "w1", "w1/b")
    await age(harness, "w1", "w1/b", by_ms=60_000)
    await drain(harness.queue._internals.shard, "w1")
    await harness.queue.claim(worker="w2")
    await register_worker(harness, "w3", "w3/a")
    await leave(harness.queue._internals.shard, "w3", "w3/a")
    for at, name in enumerate(("w3", "w2", "w1")):
        await harness.client.zadd(harness.keys.workers(), {name: at})
    before = await harness.dump()

    first, second, third = await read_fleet(harness.queue._internals.shard)

    assert (first.name, second.name, third.name) == ("w1", "w2", "w3")
    assert [(run.id, run.drain_requested, run.registration) for run in first.runs] == [
        ("w1/a", True, OFFER), ("w1/b", False, OFFER),
    ]  # fmt: skip
    assert [run.silent_ms > run.lease_ms for run in first.runs] == [False, True]
    assert (second.runs, second.left, third.runs, third.left) == ([], False, [], True)
    assert await harness.dump() == before


async def test_the_list_is_bounded(harness: Harness) -> None:
    await harness.client.zadd(harness.keys.workers(), {f"w{at}": at for at in range(5)})

    found = await read_fleet(harness.queue._internals.shard, limit=2)

    assert [one.name for one in found] == ["w4", "w3"]


async def test_an_unreadable_run_counts_as_gone(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/a", b"soon \xff {")
    await harness.client.hset(harness.keys.worker("w1"), "run:w1/b", b"1 99999999999999 {")

    ((first, second),) = [one.runs for one in await read_fleet(harness.queue._internals.shard)]

    assert first.silent_ms > first.lease_ms
    assert (first.registration, second.registration) == (None, None)
