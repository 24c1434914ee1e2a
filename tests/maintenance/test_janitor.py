"""The janitor deletes what is over, in bounded steps, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.maintenance import janitor as service
from rqueue.maintenance.janitor import Cleared, Janitor
from tests.harness import Harness
from tests.lua.repair.broken import one_of_each
from tests.lua.task.keyspace import mailbox_lines, waiting_claim


def a_janitor(harness: Harness) -> Janitor:
    return Janitor(harness.queue._internals.shard)


async def gone(harness: Harness, worker: str) -> None:
    """A worker whose claim waited long ago."""
    await waiting_claim(harness, worker)
    await harness.client.zadd(harness.keys.workers(), {worker: 1})
    await harness.client.hset(harness.keys.waiter(f"{worker}/parked"), "until", 1)


async def test_an_empty_shard_stays_empty(harness: Harness) -> None:
    assert await a_janitor(harness).tick() == Cleared()
    assert await harness.dump() == {}


async def test_a_shard_in_use_is_not_changed(harness: Harness) -> None:
    await one_of_each(harness)
    before = await harness.dump()

    assert await a_janitor(harness).tick() == Cleared()
    assert await harness.dump() == before


async def test_all_keys_of_a_silent_worker_are_deleted(harness: Harness) -> None:
    living = await waiting_claim(harness, "w1")
    before = set(await harness.dump())
    await gone(harness, "w2")

    assert await a_janitor(harness).tick() == Cleared(workers=1, conversations=1)

    assert set(await harness.dump()) == before
    assert await harness.client.zrange(harness.keys.workers(), 0, -1) == [b"w1"]
    await harness.queue.enqueue("code")
    assert len(await mailbox_lines(harness, living)) == 1


async def test_deleted_tasks_are_removed_from_their_tags(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, tags=["t"])).id.ulid
    await harness.client.zadd(harness.keys.tag_list("t"), {f"GONE{at}": at for at in range(700)})

    assert await a_janitor(harness).tick() == Cleared(tagged=700)
    assert await harness.client.zrange(harness.keys.tag_list("t"), 0, -1) == [task.encode()]


async def test_a_tick_is_bounded_and_the_next_continues(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    names = [harness.keys.waiter(f"gone{at}") for at in range(2000)]
    for name in names:
        await harness.client.hset(name, "until", 1)
    janitor = a_janitor(harness)

    ticks = [(await janitor.tick()).conversations]
    while janitor.cursor != "0":
        ticks.append((await janitor.tick()).conversations)

    assert len(ticks) > 2
    assert sum(ticks) == 2000
    assert await harness.dump() == {}


async def test_two_concurrent_janitors_clear_each_key_once(harness: Harness) -> None:
    for at in range(20):
        await gone(harness, f"w{at}")

    ticks = await asyncio.gather(a_janitor(harness).tick(), a_janitor(harness).tick())

    assert sum(tick.workers for tick in ticks) == 20
    assert sum(tick.conversations for tick in ticks) == 20


async def test_workers_that_come_and_go_leave_no_consumers(harness: Harness) -> None:
    for at in range(30):
        await harness.queue.enqueue("code")
        (lease,) = await harness.queue.claim(worker=f"w{at}", types=["code"])
        await lease.start()
        await lease.complete()
    held = await harness.claimed()
    await harness.client.zadd(harness.keys.workers(), {f"w{at}": at + 1 for at in range(30)})

    await a_janitor(harness).tick()

    (consumer,) = await harness.client.xinfo_consumers(harness.keys.ready(), "workers")
    assert (consumer["name"].decode(), consumer["pending"]) == (held.worker, 1)
