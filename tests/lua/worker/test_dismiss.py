"""dismiss: workers that are silent for long and hold no lease are deleted."""

from __future__ import annotations

from typing import Any

from rqueue import Lease, State
from rqueue.maintenance.janitor import dismiss
from tests.harness import Harness
from tests.lua.repair.broken import pending

DAY_MS = 86_400_000


async def dismissed(harness: Harness, **options: Any) -> int:
    return await dismiss(harness.queue._internals.shard, silent_ms=DAY_MS, **options)


async def gone(harness: Harness, worker: str) -> Lease:
    """Makes the last heartbeat of a worker old."""
    await harness.queue.enqueue("code")
    (lease,) = await harness.queue.claim(worker=worker, types=["code"])
    await harness.client.hset(harness.keys.worker(worker), "alone", lease.id.ulid)
    await harness.client.zadd(harness.keys.workers(), {worker: 1})
    return lease


async def consumers(harness: Harness) -> set[str]:
    found = await harness.client.xinfo_consumers(harness.keys.ready(), "workers")
    return {one["name"].decode() for one in found}


async def workers(harness: Harness) -> set[str]:
    return {name.decode() for name in await harness.client.zrange(harness.keys.workers(), 0, -1)}


async def test_before_the_first_worker_nothing_is_deleted(harness: Harness) -> None:
    assert await dismissed(harness) == 0
    assert await harness.dump() == {}


async def test_a_silent_worker_without_leases_is_deleted(harness: Harness) -> None:
    lease = await gone(harness, "w1")
    await lease.release()
    other = await harness.queue.claim(worker="w2", types=["code"])
    before = await harness.dump()

    assert await dismissed(harness) == 1

    after = await harness.dump()
    assert (await consumers(harness), await workers(harness)) == ({"w2"}, {"w2"})
    assert set(before) - set(after) == {harness.keys.worker("w1")}
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {harness.keys.workers()}
    await other[0].start()
    await other[0].complete()


async def test_a_worker_with_a_lease_stays_and_its_lease_is_not_lost(harness: Harness) -> None:
    lease = await gone(harness, "w1")
    before = await harness.dump()

    assert await dismissed(harness) == 0

    assert await harness.dump() == before
    assert list((await pending(harness)).values()) == ["w1"]
    assert await consumers(harness) == {"w1"}
    await harness.age(lease, 60)
    await harness.reaper.tick()
    assert (await harness.task(lease.id)).state is State.READY
    assert await dismissed(harness) == 1
    assert await consumers(harness) == set()


async def test_a_worker_with_a_recent_heartbeat_stays(harness: Harness) -> None:
    lease = await gone(harness, "w1")
    await lease.renew()
    await lease.release()
    before = await harness.dump()

    assert await dismissed(harness) == 0
    assert await harness.dump() == before


async def test_a_worker_that_never_got_a_task_is_deleted_too(harness: Harness) -> None:
    assert await harness.queue.claim(worker="w1", types=["code"]) == []
    await harness.client.zadd(harness.keys.workers(), {"w1": 1})

    assert await dismissed(harness) == 1
    assert await workers(harness) == set()


async def test_a_worker_that_returns_is_registered_again(harness: Harness) -> None:
    await (await gone(harness, "w1")).release()
    await dismissed(harness)

    (lease,) = await harness.queue.claim(worker="w1", types=["code"])

    await lease.start()
    await lease.complete()
    assert (await consumers(harness), await workers(harness)) == ({"w1"}, {"w1"})


async def test_a_step_is_bounded(harness: Harness) -> None:
    await harness.client.zadd(harness.keys.workers(), {f"w{at}": at for at in range(5)})

    assert [await dismissed(harness, limit=2) for _ in range(4)] == [2, 2, 1, 0]
