"""reviewed: what the archive has leaves the stream, and nothing else does; read before by pages."""

from __future__ import annotations

from rqueue import TaskId
from rqueue.store import reviews
from tests.house import House
from tests.lua.task.afterwards import ask
from tests.lua.task.test_discard import dead


async def escalated(house: House, number: int) -> TaskId:
    task = await dead(house)
    for n in range(number):
        await house.queue.resolve(task, "escalate", note=str(n))
    return task


async def test_what_is_committed_goes_and_the_rest_stays(house: House) -> None:
    await escalated(house, 3)
    first, second, third = await reviews.page(house.queue.shard)
    before = await house.dump()

    said = await ask(house, "queue/reviewed", {}, [(first.entry,), (third.entry,)])

    assert said == ["OK", 2]
    assert await reviews.page(house.queue.shard) == [second]
    after = await house.dump()
    assert {key for key in before if before[key] != after[key]} == {house.keys.reviews()}


async def test_sent_again_it_finds_nothing_and_changes_nothing(house: House) -> None:
    await escalated(house, 2)
    first, _ = await reviews.page(house.queue.shard)
    await ask(house, "queue/reviewed", {}, [(first.entry,)])
    before = await house.dump()

    assert await ask(house, "queue/reviewed", {}, [(first.entry,)]) == ["OK", 0]
    assert await house.dump() == before


async def test_without_reviews_there_is_nothing(house: House) -> None:
    assert await reviews.reviewed(house.queue.shard, ["1-0"]) == 0
    assert await reviews.page(house.queue.shard) == []
    assert await house.dump() == {}


async def test_pages_follow_each_other_oldest_first(house: House) -> None:
    task = await escalated(house, 5)

    first = await reviews.page(house.queue.shard, limit=3)
    rest = await reviews.page(house.queue.shard, after=first[-1].entry, limit=3)
    end = await reviews.page(house.queue.shard, after=rest[-1].entry)

    assert [review.note for review in [*first, *rest]] == ["0", "1", "2", "3", "4"]
    assert {review.task for review in first} == {task}
    assert end == []


async def test_what_is_no_review_is_passed_over(house: House) -> None:
    key = house.keys.reviews()
    for _ in range(3):
        await house.client.xadd(key, {"some": "thing"})
    task = await escalated(house, 1)
    await house.client.xadd(key, {"task": task.ulid, "life": "x", "at": "1", "resolution": "r"})
    broken = {"task": task.ulid, "life": "1", "at": "1", "resolution": "r", "diff": "{"}
    await house.client.xadd(key, broken)

    assert [review.note for review in await reviews.page(house.queue.shard, limit=2)] == ["0"]
    assert [review.note async for review in reviews.walk(house.queue.shard)] == ["0"]
