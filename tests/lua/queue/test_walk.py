"""walk: every key of the shard is seen, of the kinds asked for, and none of another's."""

from __future__ import annotations

from rqueue.store.sweeping import START, walk
from tests.house import House
from tests.lua.queue.broken import one_of_each


async def walked(house: House, *kinds: str, limit: int = 500) -> list[str]:
    """The names that a whole walk finds; it may find one twice."""
    page = await walk(house.queue.shard, kinds, limit=limit)
    found = list(page.names)
    while page.cursor != START:
        page = await walk(house.queue.shard, kinds, page.cursor, limit=limit)
        found += page.names
    return sorted(set(found))


async def test_an_empty_shard_has_no_keys(house: House) -> None:
    assert await walked(house, "task", "tag") == []


async def test_the_kinds_asked_for_are_found(house: House) -> None:
    tasks = await one_of_each(house)
    before = await house.dump()

    assert set(await walked(house, "task")) >= {f"task:{task}" for task in tasks.values()}
    assert await walked(house, "tag", "blocked") == ["blocked", "tag:t"]
    assert await house.dump() == before


async def test_another_queue_is_not_looked_at(house: House) -> None:
    other = house.keys.root.replace("house", "house2")
    await house.client.set(f"{other}task:1", "x")
    await house.client.set("task:2", "x")
    await house.client.set(house.keys.task("3"), "x")

    assert await walked(house, "task") == ["task:3"]


async def test_small_pages_find_all_of_it(house: House) -> None:
    for at in range(300):
        await house.client.set(house.keys.definition(f"{at}"), "x")

    assert len(await walked(house, "def", limit=10)) == 300
