"""prune: an index lists only tasks that exist and are in its state."""

from __future__ import annotations

import pytest

from rqueue.maintenance.sweeper import START, prune
from tests.harness import Harness
from tests.lua.repair.broken import one_of_each, repaired

INDEXES = ("delayed", "blocked", "dead", "deadlines", "deliveries")


async def pruned(harness: Harness, key: str) -> int:
    """The number of members that a whole round removes."""
    cursor, number = await prune(harness.queue._internals.shard, key)
    while cursor != START:
        cursor, more = await prune(harness.queue._internals.shard, key, cursor)
        number += more
    return number


async def members(harness: Harness, key: str) -> set[str]:
    return {member.decode() for member in await harness.client.zrange(key, 0, -1)}


async def test_a_healthy_index_is_not_changed(harness: Harness) -> None:
    await one_of_each(harness)
    await harness.queue.enqueue("seven")
    assert await harness.client.zcard(harness.keys.deliveries()) == 1
    before = await harness.dump()
    keys = [getattr(harness.keys, index)() for index in INDEXES]
    keys += [harness.keys.lane(number) for number in range(1, 10)] + [harness.keys.tag_list("t")]

    assert [await pruned(harness, key) for key in keys] == [0] * len(keys)
    assert await harness.dump() == before


async def test_an_absent_index_is_not_created(harness: Harness) -> None:
    assert await pruned(harness, harness.keys.delayed()) == 0
    assert await harness.dump() == {}


@pytest.mark.parametrize("index", [*INDEXES, "tag"])
async def test_a_deleted_task_is_removed(harness: Harness, index: str) -> None:
    await one_of_each(harness)
    key = harness.keys.tag_list("t") if index == "tag" else getattr(harness.keys, index)()
    before = await members(harness, key)
    await harness.client.zadd(key, {"GONE:1" if index == "deliveries" else "GONE": 1})

    assert await pruned(harness, key) == 1

    assert await members(harness, key) == before
    assert await repaired(harness) == 1


async def test_a_lane_keeps_only_its_own_ready_tasks(harness: Harness) -> None:
    tasks = await one_of_each(harness)
    lane = int(await harness.client.hget(harness.keys.task(tasks["ready"]), "lane"))
    other = (await harness.queue.enqueue("nine")).id.ulid
    strays = {tasks["running"]: 1, tasks["delayed"]: 2, tasks["dead"]: 3, other: 4, "GONE": 5}
    await harness.client.zadd(harness.keys.lane(lane), strays)

    assert await pruned(harness, harness.keys.lane(lane)) == 5

    assert await members(harness, harness.keys.lane(lane)) == {tasks["ready"]}
    assert await harness.queue.claim(worker="w9", types=["nine"])


@pytest.mark.parametrize(
    ("index", "name"), [("delayed", "ready"), ("blocked", "retrying"), ("dead", "blocked")]
)
async def test_a_task_of_another_state_is_removed(harness: Harness, index: str, name: str) -> None:
    task = (await one_of_each(harness))[name]
    key = getattr(harness.keys, index)()
    before = await members(harness, key)
    await harness.client.zadd(key, {task: 1})

    assert await pruned(harness, key) == 1
    assert await members(harness, key) == before


async def test_a_delivery_of_an_older_claim_is_removed(harness: Harness) -> None:
    task = (await one_of_each(harness))["claimed"]
    await harness.client.zadd(harness.keys.deliveries(), {f"{task}:1": 1, f"{task}:7": 1, "odd": 1})

    assert await pruned(harness, harness.keys.deliveries()) == 2
    assert await members(harness, harness.keys.deliveries()) == {f"{task}:1"}


async def test_a_task_that_was_delivered_running_keeps_its_delivery(harness: Harness) -> None:
    task = (await one_of_each(harness))["running"]
    await harness.client.zadd(harness.keys.deliveries(), {f"{task}:1": 1})

    assert await pruned(harness, harness.keys.deliveries()) == 0
    assert await members(harness, harness.keys.deliveries()) == {f"{task}:1"}


async def test_pages_cover_the_whole_index(harness: Harness) -> None:
    key = harness.keys.delayed()
    await harness.client.zadd(key, {f"GONE{at}": at for at in range(1500)})

    cursor, number = await prune(harness.queue._internals.shard, key, limit=100)

    assert cursor != START
    assert 0 < number < 1500
    while cursor != START:
        cursor, more = await prune(harness.queue._internals.shard, key, cursor, limit=100)
        number += more
    assert number == 1500
    assert await harness.client.exists(key) == 0


async def test_the_archive_still_needs_an_ended_task(archived_harness: Harness) -> None:
    lease = await archived_harness.running(tags=["t"])
    await lease.complete("done")
    key = archived_harness.keys.tag_list("t")
    before = await archived_harness.dump()

    assert await pruned(archived_harness, key) == 0
    assert await archived_harness.dump() == before
