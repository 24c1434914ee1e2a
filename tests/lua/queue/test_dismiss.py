"""dismiss: workers that are silent for long and hold nothing are forgotten."""

from __future__ import annotations

from typing import Any

from rqueue import Lease, State
from rqueue.store.sweeping import dismiss
from tests.house import House
from tests.lua.queue.broken import pending

DAY_MS = 86_400_000


async def dismissed(house: House, **options: Any) -> int:
    return await dismiss(house.queue.shard, silent_ms=DAY_MS, **options)


async def gone(house: House, worker: str) -> Lease:
    """What a worker holds that was last heard of long ago."""
    await house.queue.enqueue("code")
    (lease,) = await house.queue.claim(worker=worker, types=["code"])
    await house.client.hset(house.keys.worker(worker), "alone", lease.id.ulid)
    await house.client.zadd(house.keys.workers(), {worker: 1})
    return lease


async def consumers(house: House) -> set[str]:
    found = await house.client.xinfo_consumers(house.keys.ready(), "workers")
    return {one["name"].decode() for one in found}


async def workers(house: House) -> set[str]:
    return {name.decode() for name in await house.client.zrange(house.keys.workers(), 0, -1)}


async def test_before_the_first_worker_there_is_nobody(house: House) -> None:
    assert await dismissed(house) == 0
    assert await house.dump() == {}


async def test_a_silent_worker_with_empty_hands_is_forgotten(house: House) -> None:
    lease = await gone(house, "w1")
    await lease.release()
    other = await house.queue.claim(worker="w2", types=["code"])
    before = await house.dump()

    assert await dismissed(house) == 1

    after = await house.dump()
    assert (await consumers(house), await workers(house)) == ({"w2"}, {"w2"})
    assert set(before) - set(after) == {house.keys.worker("w1")}
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {house.keys.workers()}
    await other[0].start()
    await other[0].complete()


async def test_one_that_holds_a_lease_stays_and_its_lease_is_not_lost(house: House) -> None:
    lease = await gone(house, "w1")
    before = await house.dump()

    assert await dismissed(house) == 0

    assert await house.dump() == before
    assert list((await pending(house)).values()) == ["w1"]
    assert await consumers(house) == {"w1"}
    await house.age(lease, 60)
    await house.reaper.tick()
    assert (await house.task(lease.id)).state is State.READY
    assert await dismissed(house) == 1
    assert await consumers(house) == set()


async def test_one_that_was_heard_of_stays(house: House) -> None:
    lease = await gone(house, "w1")
    await lease.renew()
    await lease.release()
    before = await house.dump()

    assert await dismissed(house) == 0
    assert await house.dump() == before


async def test_one_that_never_got_a_task_is_forgotten_too(house: House) -> None:
    assert await house.queue.claim(worker="w1", types=["code"]) == []
    await house.client.zadd(house.keys.workers(), {"w1": 1})

    assert await dismissed(house) == 1
    assert await workers(house) == set()


async def test_one_that_comes_back_is_a_worker_again(house: House) -> None:
    await (await gone(house, "w1")).release()
    await dismissed(house)

    (lease,) = await house.queue.claim(worker="w1", types=["code"])

    await lease.start()
    await lease.complete()
    assert (await consumers(house), await workers(house)) == ({"w1"}, {"w1"})


async def test_a_step_is_bounded(house: House) -> None:
    await house.client.zadd(house.keys.workers(), {f"w{at}": at for at in range(5)})

    assert [await dismissed(house, limit=2) for _ in range(4)] == [2, 2, 1, 0]
