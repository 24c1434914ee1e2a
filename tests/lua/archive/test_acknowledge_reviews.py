"""reviewed: what the archive has leaves the stream, and nothing else does; read before by pages."""

from __future__ import annotations

from rqueue import TaskId
from rqueue.dead import reviews
from tests.harness import Harness
from tests.lua.task.keys_after import ask
from tests.lua.task.test_discard import dead


async def escalated(harness: Harness, number: int) -> TaskId:
    task = await dead(harness)
    for n in range(number):
        await harness.queue.dead.decide(task, "escalate", note=str(n))
    return task


async def test_what_is_committed_goes_and_the_rest_stays(harness: Harness) -> None:
    await escalated(harness, 3)
    first, second, third = await reviews.page(harness.queue._internals.shard)
    before = await harness.dump()

    said = await ask(harness, "archive/acknowledge_reviews", {}, [(first.entry,), (third.entry,)])

    assert said == ["OK", 2]
    assert await reviews.page(harness.queue._internals.shard) == [second]
    after = await harness.dump()
    assert {key for key in before if before[key] != after[key]} == {harness.keys.reviews()}


async def test_sent_again_it_finds_nothing_and_changes_nothing(harness: Harness) -> None:
    await escalated(harness, 2)
    first, _ = await reviews.page(harness.queue._internals.shard)
    await ask(harness, "archive/acknowledge_reviews", {}, [(first.entry,)])
    before = await harness.dump()

    assert await ask(harness, "archive/acknowledge_reviews", {}, [(first.entry,)]) == ["OK", 0]
    assert await harness.dump() == before


async def test_without_reviews_there_is_nothing(harness: Harness) -> None:
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


async def test_what_is_no_review_is_passed_over(harness: Harness) -> None:
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
