"""rescore: a task moves by as much as its urgency has grown, and its own priority still counts."""

from __future__ import annotations

from typing import Any

from rqueue.store.tasks import set_priority
from rqueue.store.urgency import Urgency, rescore
from tests.house import House
from tests.lua.rows import BASE, everything, held, submitted

POINT = 1_000_000


async def rescored(house: House, task: str, boost: int, was: int = 0) -> str:
    (word,) = await rescore(house.queue.shard, [Urgency(task, boost, was)])
    return word


async def score(house: House, task: str) -> int:
    return int(await house.client.hget(house.keys.task(task), "score"))


async def test_a_ready_task_moves_in_its_lane(house: House) -> None:
    first, second = [await submitted(house) for _ in "ab"]
    before = await everything(house)

    assert await rescored(house, second, 5 * POINT, 2 * POINT) == "OK"

    after = await everything(house)
    assert after["lane:1"] == {second: BASE - 3 * POINT, first: BASE}
    fields: dict[str, Any] = {"boost": str(5 * POINT), "score": str(BASE - 3 * POINT)}
    assert after[f"task:{second}"] == before[f"task:{second}"] | fields
    for name in ("lane:1", f"task:{second}"):
        del before[name], after[name]
    assert after == before


async def test_sent_again_it_changes_nothing(house: House) -> None:
    task = await submitted(house)
    await rescored(house, task, 5 * POINT)
    before = await house.dump()

    assert await rescored(house, task, 5 * POINT) == "OK"
    assert await house.dump() == before


async def test_what_was_written_last_counts_not_what_was_submitted(house: House) -> None:
    task = await submitted(house)

    for boost in (1, 4, 9):
        await rescored(house, task, boost * POINT, 1 * POINT)

    assert await score(house, task) == BASE - 8 * POINT


async def test_a_priority_set_in_between_still_counts(house: House) -> None:
    task = await submitted(house)
    await rescored(house, task, 2 * POINT)
    found = (await house.queue.get(task)).id
    await set_priority(house.queue.shard, found, base=10 * POINT, was=BASE)

    await rescored(house, task, 5 * POINT)

    assert await score(house, task) == 10 * POINT - 5 * POINT


async def test_one_that_waits_or_is_in_hand_comes_back_with_its_urgency(house: House) -> None:
    waiting = await submitted(house, ask={"delay": 60_000})
    in_hand = (await held(house)).task

    assert await rescored(house, waiting, POINT) == "OK"
    assert await rescored(house, in_hand, POINT) == "OK"

    assert [await score(house, task) for task in (waiting, in_hand)] == [BASE - POINT] * 2
    assert await house.client.exists(house.keys.lane(1)) == 0


async def test_one_that_is_gone_or_has_ended_is_not_touched(house: House) -> None:
    task = await submitted(house)
    await house.queue.cancel(task)
    before = await house.dump()

    assert await rescored(house, "NONE", POINT) == "GONE"
    assert await rescored(house, task, POINT) == "STATE:CANCELLED"
    assert await house.dump() == before
