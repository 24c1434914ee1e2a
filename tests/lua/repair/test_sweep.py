"""sweep: the stream has one entry for each READY or leased task, and no lease too many."""

from __future__ import annotations

from rqueue.maintenance.sweeper import sweep
from tests.harness import Harness
from tests.lua.repair.broken import entry_of, one_of_each, pending, repaired, stream


async def swept(harness: Harness) -> int:
    """The number of repairs of a whole round."""
    after, number = await sweep(harness.queue._internals.shard)
    while after:
        after, more = await sweep(harness.queue._internals.shard, after)
        number += more
    return number


async def test_a_healthy_stream_is_not_changed(harness: Harness) -> None:
    await one_of_each(harness)
    before = await harness.dump()

    assert await swept(harness) == 0
    assert await harness.dump() == before


async def test_before_the_first_task_there_is_nothing_to_do(harness: Harness) -> None:
    assert await swept(harness) == 0
    assert await harness.dump() == {}


async def test_without_a_group_entries_are_checked_too(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id.ulid
    await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})

    assert await swept(harness) == 1
    assert await stream(harness) == [task]


async def test_an_entry_without_a_task_is_deleted(harness: Harness) -> None:
    await one_of_each(harness)
    before = await harness.dump()
    stray = await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})
    await harness.client.xclaim(harness.keys.ready(), "workers", "w1", 0, [stray], force=True)

    assert await swept(harness) == 1

    assert await repaired(harness) == 1
    await harness.client.hdel(harness.keys.stats(), "repaired")
    assert await harness.dump() == before


async def test_a_second_entry_of_a_task_is_deleted_and_the_first_stays(harness: Harness) -> None:
    tasks = await one_of_each(harness)
    before = await stream(harness)
    for name in ("ready", "running", "retrying", "blocked", "dead", "done"):
        await harness.client.xadd(harness.keys.ready(), {"task": tasks[name]})

    assert await swept(harness) == 6
    assert await stream(harness) == before


async def test_an_entry_of_another_writer_is_deleted(harness: Harness) -> None:
    await one_of_each(harness)
    before = await stream(harness)
    await harness.client.xadd(harness.keys.ready(), {"what": "is this", "and": "that"})

    assert await swept(harness) == 1
    assert await stream(harness) == before


async def test_a_lease_on_a_deleted_entry_is_removed(harness: Harness) -> None:
    await one_of_each(harness)
    before = await pending(harness)
    stray = await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})
    await harness.client.xclaim(harness.keys.ready(), "workers", "w7", 0, [stray], force=True)
    await harness.client.xdel(harness.keys.ready(), stray)
    assert len(await pending(harness)) == len(before) + 1

    assert await swept(harness) == 1
    assert await pending(harness) == before


async def test_a_lease_on_a_ready_task_is_removed_and_the_task_stays(harness: Harness) -> None:
    tasks = await one_of_each(harness)
    before = await harness.dump()
    entry = await entry_of(harness, tasks["ready"])
    await harness.client.xclaim(harness.keys.ready(), "workers", "w1", 0, [entry], force=True)

    assert await swept(harness) == 1

    await harness.client.hdel(harness.keys.stats(), "repaired")
    assert await harness.dump() == before


async def test_pages_follow_one_another(harness: Harness) -> None:
    shard = harness.queue._internals.shard
    tasks = [(await harness.queue.enqueue("code")).id.ulid for _ in range(3)]
    for _ in range(2):
        await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})

    first = await sweep(shard, limit=2)
    second = await sweep(shard, first.cursor, limit=2)
    third = await sweep(shard, second.cursor, limit=2)

    assert [page.number for page in (first, second, third)] == [0, 1, 1]
    assert first.cursor == await entry_of(harness, tasks[1])
    assert third.cursor == ""
    assert await stream(harness) == tasks
