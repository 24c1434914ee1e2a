"""acknowledge_reviews: committed reviews leave the stream and others stay; read in pages."""

from __future__ import annotations

from rqueue import TaskId
from rqueue.dead import reviews
from tests.harness import Harness
from tests.lua.task.keyspace import run_move
from tests.lua.task.test_discard import dead


async def escalated(harness: Harness, number: int) -> TaskId:
    task = await dead(harness)
    for n in range(number):
        await harness.queue.dead.decide(task, "escalate", note=str(n))
    return task


async def test_committed_reviews_are_deleted_and_the_others_stay(harness: Harness) -> None:
    await escalated(harness, 3)
    first, second, third = await reviews.page(harness.queue._internals.shard)
    before = await harness.dump()

    reply = await run_move(
        harness, "archive/acknowledge_reviews", {}, [(first.entry,), (third.entry,)]
    )

    assert reply == ["OK", 2]
    assert await reviews.page(harness.queue._internals.shard) == [second]
    after = await harness.dump()
    assert {key for key in before if before[key] != after[key]} == {harness.keys.reviews()}


async def test_a_repeated_call_deletes_nothing(harness: Harness) -> None:
    await escalated(harness, 2)
    first, _ = await reviews.page(harness.queue._internals.shard)
    await run_move(harness, "archive/acknowledge_reviews", {}, [(first.entry,)])
    before = await harness.dump()

    assert await run_move(harness, "archive/acknowledge_reviews", {}, [(first.entry,)]) == ["OK", 0]
    assert await harness.dump() == before


async def test_without_reviews_the_page_is_empty(harness: Harness) -> None:
    assert await reviews.reviewed(harness.queue._internals.shard, ["1-0"]) == 0
    assert await reviews.page(harness.queue._internals.shard) == []
    assert await harness.dump() == {}


async def test_pages_follow_each_other_oldest_first(harness: Harness) -> None:
    task = await escalated(harness, 5)

    first = await reviews.page(harness.queue._internals.shard, limit=3)
    rest = await reviews.page(harness.queue._internals.shard, after=first[-1].entry, limit=3)
    end = await reviews.page(harness.queue._internals.shard, after=rest[-1].entry)

    assert [review.note for review in [*first, *rest]] == ["0", "1", "2", "3", "4"]
    assert {review.task for review in first} == {task}
    assert end == []


async def test_malformed_entries_are_skipped(harness: Harness) -> None:
    key = harness.keys.reviews()
    for _ in range(3):
        await harness.client.xadd(key, {"some": "thing"})
    task = await escalated(harness, 1)
    await harness.client.xadd(key, {"task": task.ulid, "life": "x", "at": "1", "resolution": "r"})
    broken = {"task": task.ulid, "life": "1", "at": "1", "resolution": "r", "diff": "{"}
    await harness.client.xadd(key, broken)

    assert [
        review.note for review in await reviews.page(harness.queue._internals.shard, limit=2)
    ] == ["0"]
    assert [review.note async for review in reviews.walk(harness.queue._internals.shard)] == ["0"]
