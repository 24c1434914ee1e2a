"""walk: all keys of the shard, of some kinds, and none of another queue."""

from __future__ import annotations

from rqueue.maintenance.sweeper import START, walk
from tests.harness import Harness
from tests.lua.repair.broken import one_of_each


async def walked(harness: Harness, *kinds: str, limit: int = 500) -> list[str]:
    """The names that a whole walk finds; it may find one twice."""
    page = await walk(harness.queue._internals.shard, kinds, limit=limit)
    found = list(page.names)
    while page.cursor != START:
        page = await walk(harness.queue._internals.shard, kinds, page.cursor, limit=limit)
        found += page.names
    return sorted(set(found))


async def test_an_empty_shard_has_no_keys(harness: Harness) -> None:
    assert await walked(harness, "task", "tag") == []


async def test_keys_of_the_given_kinds_are_found(harness: Harness) -> None:
    tasks = await one_of_each(harness)
    before = await harness.dump()

    assert set(await walked(harness, "task")) >= {f"task:{task}" for task in tasks.values()}
    assert await walked(harness, "tag", "blocked") == ["blocked", "tag:t"]
    assert await harness.dump() == before


async def test_keys_of_another_queue_are_not_returned(harness: Harness) -> None:
    other = harness.keys.root.replace("sales", "sales2")
    await harness.client.set(f"{other}task:1", "x")
    await harness.client.set("task:2", "x")
    await harness.client.set(harness.keys.task("3"), "x")

    assert await walked(harness, "task") == ["task:3"]


async def test_small_pages_find_all_of_it(harness: Harness) -> None:
    for at in range(300):
        await harness.client.set(harness.keys.definition(f"{at}"), "x")

    assert len(await walked(harness, "def", limit=10)) == 300
