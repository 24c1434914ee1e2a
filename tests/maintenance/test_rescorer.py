"""A task moves forward in its lane as its deadline comes nearer, by a point at a time."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from rqueue import Call, State, TaskId
from rqueue.clock import SYSTEM
from rqueue.maintenance import rescorer as service
from rqueue.maintenance.rescorer import Rescored, Rescorer
from rqueue.task.priority import deadline_boost
from tests.harness import Harness

POINT = 1_000_000
HOUR_MS = 3_600_000


def a_rescorer(harness: Harness) -> Rescorer:
    return Rescorer(harness.queue._internals.shard, harness.queue._internals.runtime.reader)


async def urgent(harness: Harness, minutes: float, *, age: bool = True, **options: Any) -> TaskId:
    """A task with a deadline; as if it had been submitted a day ago, when it was not urgent."""
    deadline = SYSTEM.now() + timedelta(minutes=minutes)
    call = Call("code", {}, {"deadline": deadline, "on_deadline": "fail", **options})
    (handle,) = await harness.queue.enqueue_many([call])
    if age:
        now_ms = SYSTEM.now_ms()
        key = harness.keys.task(handle.id.ulid)
        slack = minutes * 60 - options.get("expected_duration_sec", 0)
        score = int(await harness.client.hget(key, "score")) + deadline_boost(slack) * POINT
        await harness.client.hset(
            key, mapping={"created": now_ms - 24 * HOUR_MS, "score": round(score)}
        )
        if await harness.client.zscore(harness.keys.lane(1), handle.id.ulid) is not None:
            await harness.client.zadd(harness.keys.lane(1), {handle.id.ulid: round(score)})
    return handle.id


async def score(harness: Harness, task: TaskId) -> int:
    return int(await harness.client.hget(harness.keys.task(task.ulid), "score"))


async def test_without_deadlines_there_is_nothing_to_do(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    before = await harness.dump()

    assert await a_rescorer(harness).tick() == Rescored()
    assert await harness.dump() == before


@pytest.mark.parametrize("minutes", [10.0, 60.0])
async def test_a_task_gets_its_current_urgency(harness: Harness, minutes: float) -> None:
    task = await urgent(harness, minutes)
    before = await score(harness, task)

    assert await a_rescorer(harness).tick() == Rescored(read=1, moved=1)

    gained = (before - await score(harness, task)) / POINT
    assert gained == pytest.approx(deadline_boost(minutes * 60), abs=0.1)
    in_lane = await harness.client.zscore(harness.keys.lane(1), task.ulid)
    assert in_lane == await score(harness, task)


async def test_the_urgent_task_is_claimed_first(harness: Harness) -> None:
    older = (await harness.queue.enqueue("code", {}, priority=40)).id
    task = await urgent(harness, 10)
    await a_rescorer(harness).tick()

    leases = await harness.queue.claim(worker="w1", types=["code"], n=2)

    assert [lease.id for lease in leases] == [task, older]


async def test_a_task_that_was_urgent_at_submit_is_not_moved(harness: Harness) -> None:
    await urgent(harness, 10, age=False)
    before = await harness.dump()

    assert await a_rescorer(harness).tick() == Rescored(read=1, moved=0)
    assert await harness.dump() == before


async def test_a_long_task_is_urgent_earlier(harness: Harness) -> None:
    task = await urgent(harness, 20 * 60, expected_duration_sec=20 * 3600)
    before = await score(harness, task)

    assert (await a_rescorer(harness).tick()).moved == 1

    assert (before - await score(harness, task)) / POINT == pytest.approx(50, abs=0.1)


async def test_a_task_is_read_again_only_when_it_has_moved_by_a_point(harness: Harness) -> None:
    task = await urgent(harness, 10)
    rescorer = a_rescorer(harness)
    await rescorer.tick()
    before = await harness.dump()

    assert await rescorer.tick() == Rescored()
    assert await harness.dump() == before
    (look_ms,) = rescorer.checks.values()
    assert 0 < look_ms - SYSTEM.now_ms() < 10 * 60_000
    rescorer.checks[task.ulid] = 1
    assert (await rescorer.tick()).read == 1


async def test_another_rescorer_continues_from_the_stored_scores(harness: Harness) -> None:
    task = await urgent(harness, 10)
    await a_rescorer(harness).tick()
    before = await score(harness, task)

    await a_rescorer(harness).tick()

    assert abs(await score(harness, task) - before) < POINT / 10


async def test_a_delayed_task_has_its_urgency_when_it_is_ready(harness: Harness) -> None:
    task = await urgent(harness, 10, delay=60)
    before = await score(harness, task)
    assert (await a_rescorer(harness).tick()).moved == 1
    await harness.make_due(task)

    await harness.promoter.tick()

    assert (await harness.task(task)).state is State.READY
    assert await harness.client.zscore(harness.keys.lane(1), task.ulid) < before - 30 * POINT


async def test_a_deleted_task_is_forgotten(harness: Harness) -> None:
    task = await urgent(harness, 10)
    rescorer = a_rescorer(harness)
    await rescorer.tick()
    await harness.queue.cancel(task)

    assert await rescorer.tick() == Rescored()
    assert rescorer.checks == {}


async def test_a_tick_reads_a_bounded_number_and_the_next_continues(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIMIT", 1)
    deadline = SYSTEM.now() + timedelta(minutes=10)
    call = Call("code", {}, {"deadline": deadline, "on_deadline": "cancel"})
    await harness.queue.enqueue_many([call] * 1200)
    rescorer = a_rescorer(harness)

    ticks = [(await rescorer.tick()).read for _ in range(4)]

    assert ticks == [500, 500, 200, 0]


async def test_a_far_deadline_is_not_rescored(harness: Harness) -> None:
    await urgent(harness, 60 * 24 * 30)

    assert await a_rescorer(harness).tick() == Rescored()


class FakeServerTime:
    """The server's time as the rescorer reads it, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = SYSTEM.now_ms()
        monkeypatch.setattr(service, "server_ms", self.now)

    async def now(self, shard: object) -> int:
        return self.ms


async def test_a_task_read_between_two_points_moves_when_the_point_is_reached(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = FakeServerTime(monkeypatch)
    task = await urgent(harness, 60, age=False)
    written = await score(harness, task)
    rescorer = a_rescorer(harness)
    hours.ms += 2 * 60_000
    early = await rescorer.tick()
    assert (early.read, early.moved) == (1, 0)

    hours.ms = early.next_ms - 1
    assert await rescorer.tick() == Rescored()
    hours.ms = early.next_ms
    assert await rescorer.tick() == Rescored(read=1, moved=1)

    assert (written - await score(harness, task)) / POINT == pytest.approx(1.0, abs=0.01)


async def test_a_task_moves_point_by_point_until_its_deadline(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = FakeServerTime(monkeypatch)
    task = await urgent(harness, 60, age=False)
    rescorer = a_rescorer(harness)
    scores = [await score(harness, task)]

    while (tick := await rescorer.tick()).next_ms:
        hours.ms = tick.next_ms
        scores.append(await score(harness, task))

    moves = [(a - b) / POINT for a, b in pairwise(scores) if a != b]
    assert moves[:-1] == pytest.approx([1.0] * (len(moves) - 1), abs=0.01)
    whole = deadline_boost(0) - deadline_boost(3600)
    assert (scores[0] - await score(harness, task)) / POINT == pytest.approx(whole, abs=0.05)


async def test_without_near_deadlines_no_next_time_is_returned(harness: Harness) -> None:
    await urgent(harness, 60 * 24 * 30)

    assert (await a_rescorer(harness).tick()).next_ms == 0


async def test_tasks_left_over_by_a_tick_are_due_immediately(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIMIT", 1)
    hours = FakeServerTime(monkeypatch)
    await urgent(harness, 10)

    assert (await a_rescorer(harness).tick()).next_ms == hours.ms
