"""sweep: the stream has one entry for each task that may run or runs, and no lease too many."""

from __future__ import annotations

from rqueue.store.sweeping import sweep
from tests.house import House
from tests.lua.queue.broken import entry_of, one_of_each, pending, repaired, stream


async def swept(house: House) -> int:
    """What a whole round takes out."""
    after, number = await sweep(house.queue.shard)
    while after:
        after, more = await sweep(house.queue.shard, after)
        number += more
    return number


async def test_a_stream_in_order_is_not_touched(house: House) -> None:
    await one_of_each(house)
    before = await house.dump()

    assert await swept(house) == 0
    assert await house.dump() == before


async def test_before_the_first_task_there_is_nothing_to_do(house: House) -> None:
    assert await swept(house) == 0
    assert await house.dump() == {}


async def test_without_a_group_entries_are_looked_at_too(house: House) -> None:
    task = (await house.queue.enqueue("code")).id.ulid
    await house.client.xadd(house.keys.ready(), {"task": "GONE"})

    assert await swept(house) == 1
    assert await stream(house) == [task]


async def test_an_entry_without_a_task_goes(house: House) -> None:
    await one_of_each(house)
    before = await house.dump()
    stray = await house.client.xadd(house.keys.ready(), {"task": "GONE"})
    await house.client.xclaim(house.keys.ready(), "workers", "w1", 0, [stray], force=True)

    assert await swept(house) == 1

    assert await repaired(house) == 1
    await house.client.hdel(house.keys.stats(), "repaired")
    assert await house.dump() == before


async def test_a_second_entry_of_a_task_goes_and_the_first_stays(house: House) -> None:
    tasks = await one_of_each(house)
    before = await stream(house)
    for name in ("ready", "running", "retrying", "blocked", "dead", "done"):
        await house.client.xadd(house.keys.ready(), {"task": tasks[name]})

    assert await swept(house) == 6
    assert await stream(house) == before


async def test_what_somebody_else_wrote_goes(house: House) -> None:
    await one_of_each(house)
    before = await stream(house)
    await house.client.xadd(house.keys.ready(), {"what": "is this", "and": "that"})

    assert await swept(house) == 1
    assert await stream(house) == before


async def test_a_lease_on_an_entry_that_is_gone_goes(house: House) -> None:
    await one_of_each(house)
    before = await pending(house)
    stray = await house.client.xadd(house.keys.ready(), {"task": "GONE"})
    await house.client.xclaim(house.keys.ready(), "workers", "w7", 0, [stray], force=True)
    await house.client.xdel(house.keys.ready(), stray)
    assert len(await pending(house)) == len(before) + 1

    assert await swept(house) == 1
    assert await pending(house) == before


async def test_a_lease_on_a_task_that_is_ready_goes_and_the_task_stays(house: House) -> None:
    tasks = await one_of_each(house)
    before = await house.dump()
    entry = await entry_of(house, tasks["ready"])
    await house.client.xclaim(house.keys.ready(), "workers", "w1", 0, [entry], force=True)

    assert await swept(house) == 1

    await house.client.hdel(house.keys.stats(), "repaired")
    assert await house.dump() == before


async def test_pages_follow_one_another(house: House) -> None:
    shard = house.queue.shard
    tasks = [(await house.queue.enqueue("code")).id.ulid for _ in range(3)]
    for _ in range(2):
        await house.client.xadd(house.keys.ready(), {"task": "GONE"})

    first = await sweep(shard, limit=2)
    second = await sweep(shard, first.cursor, limit=2)
    third = await sweep(shard, second.cursor, limit=2)

    assert [page.number for page in (first, second, third)] == [0, 1, 1]
    assert first.cursor == await entry_of(house, tasks[1])
    assert third.cursor == ""
    assert await stream(house) == tasks
