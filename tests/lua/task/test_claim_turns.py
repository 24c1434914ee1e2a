"""Turns between limit keys: nobody's million tasks keep another's ten waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from rqueue import Lease
from rqueue.services.janitor import Janitor
from tests.house import House, opened
from tests.servers import Server


async def enqueued(house: House, key: str, n: int = 1, type: str = "code", **options: Any) -> None:
    """Tasks of a key."""
    await house.queue.enqueue_many([{"type": type, "limit_key": key, **options}] * n)


async def claimed(house: House, n: int, worker: str = "w1") -> list[Lease]:
    """What a worker for everything is given."""
    return await house.queue.claim(worker=worker, n=n)


def keys(leases: Sequence[Lease]) -> str:
    """The first letters of the keys of leases, in their order."""
    return "".join((lease.task.spec.limit_key or "-")[0] for lease in leases)


async def given(house: House, n: int) -> str:
    """The same of what a claim gives."""
    return keys(await claimed(house, n))


async def test_ten_tasks_behind_thousands_are_served_within_their_turns(house: House) -> None:
    await enqueued(house, "big", 4000)
    await enqueued(house, "small", 10)

    found = await given(house, 30)

    assert found == "bs" * 10 + "b" * 10


async def test_a_key_has_turns_by_its_weight(server: Server) -> None:
    async with opened(server, turns={"weights": {"small": 3}}) as house:
        await enqueued(house, "big", 1000)
        await enqueued(house, "small", 60)

        found = await given(house, 40)

        assert Counter(found) == {"b": 10, "s": 30}
        # At every moment, not only in the end.
        for at in range(4, 41, 4):
            assert Counter(found[:at])["s"] == at // 4 * 3


@pytest.mark.parametrize("weights", [{}, {"a": 3}, {"b": 0.5, "c": 7}])
@pytest.mark.parametrize("enabled", [True, False])
async def test_a_batch_is_as_many_claims_for_one(
    server: Server, weights: dict[str, float], enabled: bool
) -> None:
    async with opened(server, turns={"weights": weights, "enabled": enabled}) as house:
        for key, number in (("a", 30), ("b", 5), ("c", 12)):
            await enqueued(house, key, number)
        await enqueued(house, "a", 6, "review", priority=40)
        await enqueued(house, "b", 6, "review", priority=40)
        await house.queue.enqueue_many([{"type": "code", "priority": 45}] * 5)
        leases = await claimed(house, 64)
        assert len(leases) == 64

        # From the beginning again, as if the janitor had come by: nothing is left for a moment.
        await house.client.delete(house.keys.turned())
        for lease in leases:
            await lease.release()
        singles = []
        while one := await claimed(house, 1):
            singles += one

        order = [(one.task.type, one.task.spec.limit_key, one.task.spec.priority) for one in leases]
        again = [
            (one.task.type, one.task.spec.limit_key, one.task.spec.priority) for one in singles
        ]
        assert again == order


async def test_a_key_that_comes_back_has_saved_nothing_up(house: House) -> None:
    await enqueued(house, "a", 50)
    await enqueued(house, "b", 1)
    assert await given(house, 21) == "ab" + "a" * 19

    await enqueued(house, "b", 5)

    assert Counter(await given(house, 6)) == {"a": 3, "b": 3}


async def test_a_key_that_comes_back_at_once_has_its_share_and_no_more(server: Server) -> None:
    async with opened(server, turns={"weights": {"a": 3}}) as house:
        await enqueued(house, "a", 50)
        await enqueued(house, "b", 1)
        found = ""

        for _ in range(24):
            got = await given(house, 1)
            found += got
            if got == "b":
                await enqueued(house, "b", 1)

        assert Counter(found) == {"a": 18, "b": 6}


async def test_within_a_key_the_best_comes_first(house: House) -> None:
    for priority in (70, 30, 50):
        await enqueued(house, "a", 1, priority=priority)
        await enqueued(house, "b", 1, priority=priority - 10)

    leases = await claimed(house, 6)

    by_key = {key: [one.task.spec.priority for one in leases if one.task.spec.limit_key == key]
              for key in "ab"}  # fmt: skip
    assert keys(leases) == "ababab"
    assert all(found == sorted(found) for found in by_key.values())


async def test_without_turns_priority_decides_over_all_keys(server: Server) -> None:
    async with opened(server, turns={"enabled": False}, priority_boost_per_minute=0) as house:
        await enqueued(house, "b", 3, priority=50)
        await enqueued(house, "a", 3, priority=50)
        await enqueued(house, "c", 1, priority=40)
        # Among equals who came first, whatever its key.
        await enqueued(house, "b", 1, priority=50)

        assert await given(house, 20) == "cbbbaaab"


async def test_a_lane_of_keys_competes_by_what_it_would_give(house: House) -> None:
    await enqueued(house, "a", 1, priority=30)
    await enqueued(house, "a", 1, priority=70)
    await house.queue.enqueue_many([{"type": "code", "priority": 50}] * 2)

    assert await given(house, 4) == "a--a"


@pytest.mark.parametrize("way", ["cancel", "pause", "delay", "better"])
async def test_what_leaves_or_moves_in_its_lane_does_so_in_its_key(house: House, way: str) -> None:
    async with house.queue.dag("graph") as dag:
        dag.add({"type": "code", "limit_key": "a"})
    await enqueued(house, "a", 1)
    (first,) = [one async for one in house.queue.find() if one.dag_id == dag.id]
    match way:
        case "cancel":
            await house.queue.cancel(first.id)
        case "pause":
            await house.queue.pause_dag(dag.id)
        case "delay":
            await house.queue.reschedule(first.id, delay=600)
        case _:
            await house.queue.set_priority(first.id, 99)

    leases = await claimed(house, 5)

    assert [one.id == first.id for one in leases] == ([False, True] if way == "better" else [False])
    if way == "pause":
        await house.queue.resume_dag(dag.id)
        assert [one.id for one in await claimed(house, 5)] == [first.id]


async def test_nothing_is_left_of_a_key_that_is_empty(house: House) -> None:
    await enqueued(house, "a", 3)
    await enqueued(house, "b", 2)
    for lease in await claimed(house, 9):
        await lease.start()
        await lease.complete()
    await Janitor(house.queue.shard).tick()

    left = [key.decode().removeprefix(house.keys.root) for key in await house.client.keys("*")]

    kinds = {"keyed", "heads", "turns", "turned", "shut", "hand", "full", "lane"}
    assert not [key for key in left if key.partition(":")[0] in kinds]


async def test_every_key_after_a_submit_and_a_claim(house: House) -> None:
    await enqueued(house, "a", 2)
    await enqueued(house, "b", 1)
    (a,) = await claimed(house, 1)
    client, keys = house.client, house.keys

    tasks = await client.zrange(keys.lane(-1), 0, -1, withscores=True)
    of_a = await client.zrange(keys.keyed(-1, "a"), 0, -1, withscores=True)
    of_b = await client.zrange(keys.keyed(-1, "b"), 0, -1, withscores=True)
    assert sorted(of_a + of_b) == sorted(tasks)
    assert await client.zrange(keys.heads(-1), 0, -1, withscores=True) == sorted(
        of_a + of_b, key=lambda pair: (pair[1], pair[0])
    )
    assert await client.zrange(keys.turns(-1), 0, -1, withscores=True) == [
        (b"b", 0), (b"a", 2_520_000),
    ]  # fmt: skip
    assert await client.zrange(keys.turned(), 0, -1, withscores=True) == [
        (b"@now", 0), (b"a", 2_520_000),
    ]  # fmt: skip
    assert await client.zrange(keys.hand("a"), 0, -1, withscores=True) == [(a.id.ulid.encode(), -1)]
    assert await client.hget(keys.task(a.id.ulid), "key") == b"a"
    assert not await client.exists(keys.shut(-1), keys.full(), keys.hand("b"), keys.rules())


async def test_a_member_that_is_not_ready_is_never_given(house: House) -> None:
    await enqueued(house, "a", 2)
    (lease,) = await claimed(house, 1)
    ulid = lease.id.ulid
    await house.client.zadd(house.keys.keyed(-1, "a"), {ulid: 0, "GONE": 0})
    await house.client.zadd(house.keys.heads(-1), {ulid: 0})
    await house.client.zadd(house.keys.turns(-1), {"ghost": 0})

    (other,) = await claimed(house, 9, "w2")

    assert other.id != lease.id
    await lease.start()
    assert not await house.client.exists(house.keys.keyed(-1, "a"), house.keys.turns(-1))


async def test_a_lost_task_with_a_key_runs_alone_and_in_its_turn(house: House) -> None:
    await enqueued(house, "a", 1, max_attempts=2)
    (lease,) = await claimed(house, 1)
    await lease.start()
    await house.age(lease, 60)
    await house.reaper.tick()
    await house.make_due(lease.id)
    await house.promoter.tick()
    await enqueued(house, "b", 1)

    (other,) = await claimed(house, 5)
    await other.start()
    await other.complete()
    leases = await claimed(house, 5)

    assert other.task.spec.limit_key == "b"
    assert [one.id for one in leases] == [lease.id]
    assert await house.client.zrange(house.keys.hand("a"), 0, -1) == [lease.id.ulid.encode()]
