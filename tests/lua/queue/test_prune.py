"""prune: an index lists what is there and in its state, and nothing else."""

from __future__ import annotations

import pytest

from rqueue.store.sweeping import START, prune
from tests.house import House
from tests.lua.queue.broken import one_of_each, repaired

INDEXES = ("delayed", "blocked", "dead", "deadlines", "handoffs")


async def pruned(house: House, key: str) -> int:
    """What a whole round takes out."""
    cursor, number = await prune(house.queue.shard, key)
    while cursor != START:
        cursor, more = await prune(house.queue.shard, key, cursor)
        number += more
    return number


async def members(house: House, key: str) -> set[str]:
    return {member.decode() for member in await house.client.zrange(key, 0, -1)}


async def test_an_index_in_order_is_not_touched(house: House) -> None:
    await one_of_each(house)
    await house.queue.enqueue("seven")
    assert await house.client.zcard(house.keys.handoffs()) == 1
    before = await house.dump()
    keys = [getattr(house.keys, index)() for index in INDEXES]
    keys += [house.keys.lane(number) for number in range(1, 10)] + [house.keys.tag_list("t")]

    assert [await pruned(house, key) for key in keys] == [0] * len(keys)
    assert await house.dump() == before


async def test_an_index_that_is_not_there_stays_so(house: House) -> None:
    assert await pruned(house, house.keys.delayed()) == 0
    assert await house.dump() == {}


@pytest.mark.parametrize("index", [*INDEXES, "tag"])
async def test_a_task_that_is_gone_leaves(house: House, index: str) -> None:
    await one_of_each(house)
    key = house.keys.tag_list("t") if index == "tag" else getattr(house.keys, index)()
    before = await members(house, key)
    await house.client.zadd(key, {"GONE:1" if index == "handoffs" else "GONE": 1})

    assert await pruned(house, key) == 1

    assert await members(house, key) == before
    assert await repaired(house) == 1


async def test_a_lane_keeps_its_own_ready_tasks_alone(house: House) -> None:
    tasks = await one_of_each(house)
    lane = int(await house.client.hget(house.keys.task(tasks["ready"]), "lane"))
    other = (await house.queue.enqueue("nine")).id.ulid
    strays = {tasks["running"]: 1, tasks["delayed"]: 2, tasks["dead"]: 3, other: 4, "GONE": 5}
    await house.client.zadd(house.keys.lane(lane), strays)

    assert await pruned(house, house.keys.lane(lane)) == 5

    assert await members(house, house.keys.lane(lane)) == {tasks["ready"]}
    assert await house.queue.claim(worker="w9", types=["nine"])


@pytest.mark.parametrize(
    ("index", "name"), [("delayed", "ready"), ("blocked", "retrying"), ("dead", "blocked")]
)
async def test_a_task_of_another_state_leaves(house: House, index: str, name: str) -> None:
    task = (await one_of_each(house))[name]
    key = getattr(house.keys, index)()
    before = await members(house, key)
    await house.client.zadd(key, {task: 1})

    assert await pruned(house, key) == 1
    assert await members(house, key) == before


async def test_a_handoff_of_an_older_claim_leaves(house: House) -> None:
    task = (await one_of_each(house))["claimed"]
    await house.client.zadd(house.keys.handoffs(), {f"{task}:1": 1, f"{task}:7": 1, "odd": 1})

    assert await pruned(house, house.keys.handoffs()) == 2
    assert await members(house, house.keys.handoffs()) == {f"{task}:1"}


async def test_a_task_that_was_mailed_started_keeps_its_handoff(house: House) -> None:
    task = (await one_of_each(house))["running"]
    await house.client.zadd(house.keys.handoffs(), {f"{task}:1": 1})

    assert await pruned(house, house.keys.handoffs()) == 0
    assert await members(house, house.keys.handoffs()) == {f"{task}:1"}


async def test_pages_go_through_all_of_it(house: House) -> None:
    key = house.keys.delayed()
    await house.client.zadd(key, {f"GONE{at}": at for at in range(1500)})

    cursor, number = await prune(house.queue.shard, key, limit=100)

    assert cursor != START
    assert 0 < number < 1500
    while cursor != START:
        cursor, more = await prune(house.queue.shard, key, cursor, limit=100)
        number += more
    assert number == 1500
    assert await house.client.exists(key) == 0


async def test_the_archive_still_needs_an_ended_task(archived_house: House) -> None:
    lease = await archived_house.running(tags=["t"])
    await lease.complete("done")
    key = archived_house.keys.tag_list("t")
    before = await archived_house.dump()

    assert await pruned(archived_house, key) == 0
    assert await archived_house.dump() == before
