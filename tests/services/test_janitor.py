"""The janitor clears away what is over, in bounded steps, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.services import janitor as service
from rqueue.services.janitor import Cleared, Janitor
from tests.house import House
from tests.lua.queue.broken import one_of_each
from tests.lua.task.afterwards import mail, parked


def a_janitor(house: House) -> Janitor:
    return Janitor(house.queue.shard)


async def gone(house: House, worker: str) -> None:
    """A worker that waited long ago."""
    await parked(house, worker)
    await house.client.zadd(house.keys.workers(), {worker: 1})
    await house.client.hset(house.keys.waiter(f"{worker}/parked"), "until", 1)


async def test_an_empty_shard_stays_so(house: House) -> None:
    assert await a_janitor(house).tick() == Cleared()
    assert await house.dump() == {}


async def test_a_shard_at_work_is_not_touched(house: House) -> None:
    await one_of_each(house)
    before = await house.dump()

    assert await a_janitor(house).tick() == Cleared()
    assert await house.dump() == before


async def test_a_gone_worker_leaves_nothing_behind(house: House) -> None:
    living = await parked(house, "w1")
    before = set(await house.dump())
    await gone(house, "w2")

    assert await a_janitor(house).tick() == Cleared(workers=1, conversations=1)

    assert set(await house.dump()) == before
    assert await house.client.zrange(house.keys.workers(), 0, -1) == [b"w1"]
    await house.queue.enqueue("code")
    assert len(await mail(house, living)) == 1


async def test_a_tag_forgets_tasks_that_are_gone(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, tags=["t"])).id.ulid
    await house.client.zadd(house.keys.tag_list("t"), {f"GONE{at}": at for at in range(700)})

    assert await a_janitor(house).tick() == Cleared(tagged=700)
    assert await house.client.zrange(house.keys.tag_list("t"), 0, -1) == [task.encode()]


async def test_a_tick_is_bounded_and_the_next_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    names = [house.keys.waiter(f"gone{at}") for at in range(2000)]
    for name in names:
        await house.client.hset(name, "until", 1)
    janitor = a_janitor(house)

    ticks = [(await janitor.tick()).conversations]
    while janitor.cursor != "0":
        ticks.append((await janitor.tick()).conversations)

    assert len(ticks) > 2
    assert sum(ticks) == 2000
    assert await house.dump() == {}


async def test_two_at_once_clear_each_thing_once(house: House) -> None:
    for at in range(20):
        await gone(house, f"w{at}")

    ticks = await asyncio.gather(a_janitor(house).tick(), a_janitor(house).tick())

    assert sum(tick.workers for tick in ticks) == 20
    assert sum(tick.conversations for tick in ticks) == 20


async def test_churn_leaves_no_consumers(house: House) -> None:
    for at in range(30):
        await house.queue.enqueue("code")
        (lease,) = await house.queue.claim(worker=f"w{at}", types=["code"])
        await lease.start()
        await lease.complete()
    held = await house.claimed()
    await house.client.zadd(house.keys.workers(), {f"w{at}": at + 1 for at in range(30)})

    await a_janitor(house).tick()

    (consumer,) = await house.client.xinfo_consumers(house.keys.ready(), "workers")
    assert (consumer["name"].decode(), consumer["pending"]) == (held.worker, 1)
