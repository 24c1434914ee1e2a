"""rescore: a task moves by as much as its urgency has grown, and its own priority still counts."""

from __future__ import annotations

from typing import Any

from rqueue.core.tasks import set_priority
from rqueue.maintenance.rescorer import Urgency, rescore
from tests.harness import Harness
from tests.lua.rows import BASE, everything, held, submitted

POINT = 1_000_000


async def rescored(harness: Harness, task: str, boost: int, was: int = 0) -> str:
    (word,) = await rescore(harness.queue._internals.shard, [Urgency(task, boost, was)])
    return word


async def score(harness: Harness, task: str) -> int:
    return int(await harness.client.hget(harness.keys.task(task), "score"))


async def test_a_ready_task_moves_in_its_lane(harness: Harness) -> None:
    first, second = [await submitted(harness) for _ in "ab"]
    before = await everything(harness)

    assert await rescored(harness, second, 5 * POINT, 2 * POINT) == "OK"

    after = await everything(harness)
    assert after["lane:1"] == {second: BASE - 3 * POINT, first: BASE}
    fields: dict[str, Any] = {"boost": str(5 * POINT), "score": str(BASE - 3 * POINT)}
    assert after[f"task:{second}"] == before[f"task:{second}"] | fields
    for name in ("lane:1", f"task:{second}"):
        del before[name], after[name]
    assert after == before


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    task = await submitted(harness)
    await rescored(harness, task, 5 * POINT)
    before = await harness.dump()

    assert await rescored(harness, task, 5 * POINT) == "OK"
    assert await harness.dump() == before


async def test_the_urgency_written_last_counts_not_the_submitted_one(harness: Harness) -> None:
    task = await submitted(harness)

    for boost in (1, 4, 9):
        await rescored(harness, task, boost * POINT, 1 * POINT)

    assert await score(harness, task) == BASE - 8 * POINT


async def test_a_priority_set_in_between_still_counts(harness: Harness) -> None:
    task = await submitted(harness)
    await rescored(harness, task, 2 * POINT)
    found = (await harness.queue.get(task)).id
    await set_priority(harness.queue._internals.shard, found, base=10 * POINT, was=BASE)

    await rescored(harness, task, 5 * POINT)

    assert await score(harness, task) == 10 * POINT - 5 * POINT


async def test_a_waiting_or_leased_task_returns_with_its_urgency(harness: Harness) -> None:
    waiting = await submitted(harness, options={"delay": 60_000})
    leased = (await held(harness)).task

    assert await rescored(harness, waiting, POINT) == "OK"
    assert await rescored(harness, leased, POINT) == "OK"

    assert [await score(harness, task) for task in (waiting, leased)] == [BASE - POINT] * 2
    assert await harness.client.exists(harness.keys.lane(1)) == 0


async def test_an_unknown_or_ended_task_is_not_changed(harness: Harness) -> None:
    task = await submitted(harness)
    await harness.queue.cancel(task)
    before = await harness.dump()

    assert await rescored(harness, "NONE", POINT) == "GONE"
    assert await rescored(harness, task, POINT) == "STATE:CANCELLED"
    assert await harness.dump() == before
