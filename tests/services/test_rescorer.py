"""A task moves forward in its lane as its deadline comes nearer, by a point at a time."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from rqueue import Call, State, TaskId
from rqueue.clock import SYSTEM
from rqueue.policy.priority import deadline_boost
from rqueue.services import rescorer as service
from rqueue.services.rescorer import Rescored, Rescorer
from tests.house import House

POINT = 1_000_000
HOUR_MS = 3_600_000


def a_rescorer(house: House) -> Rescorer:
    return Rescorer(house.queue.shard, house.queue.runtime.reader)


async def urgent(house: House, minutes: float, *, age: bool = True, **options: Any) -> TaskId:
    """A task with a deadline; as if it had been submitted a day ago, when it was not urgent."""
    deadline = SYSTEM.now() + timedelta(minutes=minutes)
    call = Call("code", {}, {"deadline": deadline, "on_deadline": "fail", **options})
    (handle,) = await house.queue.enqueue_many([call])
    if age:
        now_ms = SYSTEM.now_ms()
        key = house.keys.task(handle.id.ulid)
        slack = minutes * 60 - options.get("expected_duration_sec", 0)
        score = int(await house.client.hget(key, "score")) + deadline_boost(slack) * POINT
        await house.client.hset(
            key, mapping={"created": now_ms - 24 * HOUR_MS, "score": round(score)}
        )
        if await house.client.zscore(house.keys.lane(1), handle.id.ulid) is not None:
            await house.client.zadd(house.keys.lane(1), {handle.id.ulid: round(score)})
    return handle.id


async def score(house: House, task: TaskId) -> int:
    return int(await house.client.hget(house.keys.task(task.ulid), "score"))


async def test_without_deadlines_there_is_nothing_to_do(house: House) -> None:
    await house.queue.enqueue("code")
    before = await house.dump()

    assert await a_rescorer(house).tick() == Rescored()
    assert await house.dump() == before


@pytest.mark.parametrize("minutes", [10.0, 60.0])
async def test_a_task_gains_the_urgency_it_has_now(house: House, minutes: float) -> None:
    task = await urgent(house, minutes)
    before = await score(house, task)

    assert await a_rescorer(house).tick() == Rescored(read=1, moved=1)

    gained = (before - await score(house, task)) / POINT
    assert gained == pytest.approx(deadline_boost(minutes * 60), abs=0.1)
    in_lane = await house.client.zscore(house.keys.lane(1), task.ulid)
    assert in_lane == await score(house, task)


async def test_the_urgent_one_is_claimed_first(house: House) -> None:
    older = (await house.queue.enqueue("code", {}, priority=40)).id
    task = await urgent(house, 10)
    await a_rescorer(house).tick()

    leases = await house.queue.claim(worker="w1", types=["code"], n=2)

    assert [lease.id for lease in leases] == [task, older]


async def test_one_that_was_urgent_when_it_came_is_not_moved(house: House) -> None:
    await urgent(house, 10, age=False)
    before = await house.dump()

    assert await a_rescorer(house).tick() == Rescored(read=1, moved=0)
    assert await house.dump() == before


async def test_what_takes_long_is_urgent_earlier(house: House) -> None:
    task = await urgent(house, 20 * 60, expected_duration_sec=20 * 3600)
    before = await score(house, task)

    assert (await a_rescorer(house).tick()).moved == 1

    assert (before - await score(house, task)) / POINT == pytest.approx(50, abs=0.1)


async def test_a_task_is_read_again_only_when_it_has_moved_by_a_point(house: House) -> None:
    task = await urgent(house, 10)
    rescorer = a_rescorer(house)
    await rescorer.tick()
    before = await house.dump()

    assert await rescorer.tick() == Rescored()
    assert await house.dump() == before
    (look_ms,) = rescorer.looks.values()
    assert 0 < look_ms - SYSTEM.now_ms() < 10 * 60_000
    rescorer.looks[task.ulid] = 1
    assert (await rescorer.tick()).read == 1


async def test_another_scheduler_goes_on_where_the_first_was(house: House) -> None:
    task = await urgent(house, 10)
    await a_rescorer(house).tick()
    before = await score(house, task)

    await a_rescorer(house).tick()

    assert abs(await score(house, task) - before) < POINT / 10


async def test_one_that_waits_has_its_urgency_when_it_is_ready(house: House) -> None:
    task = await urgent(house, 10, delay=60)
    before = await score(house, task)
    assert (await a_rescorer(house).tick()).moved == 1
    await house.make_due(task)

    await house.promoter.tick()

    assert (await house.task(task)).state is State.READY
    assert await house.client.zscore(house.keys.lane(1), task.ulid) < before - 30 * POINT


async def test_one_that_is_gone_is_forgotten(house: House) -> None:
    task = await urgent(house, 10)
    rescorer = a_rescorer(house)
    await rescorer.tick()
    await house.queue.cancel(task)

    assert await rescorer.tick() == Rescored()
    assert rescorer.looks == {}


async def test_a_tick_reads_so_many_and_the_next_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIMIT", 1)
    deadline = SYSTEM.now() + timedelta(minutes=10)
    call = Call("code", {}, {"deadline": deadline, "on_deadline": "cancel"})
    await house.queue.enqueue_many([call] * 1200)
    rescorer = a_rescorer(house)

    ticks = [(await rescorer.tick()).read for _ in range(4)]

    assert ticks == [500, 500, 200, 0]


async def test_a_far_deadline_is_left_alone(house: House) -> None:
    await urgent(house, 60 * 24 * 30)

    assert await a_rescorer(house).tick() == Rescored()


class Hours:
    """The server's time as the rescorer is told it, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = SYSTEM.now_ms()
        monkeypatch.setattr(service, "server_ms", self.told)

    async def told(self, shard: object) -> int:
        return self.ms


async def test_one_that_was_read_between_two_points_moves_at_the_point_itself(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(monkeypatch)
    task = await urgent(house, 60, age=False)
    written = await score(house, task)
    rescorer = a_rescorer(house)
    hours.ms += 2 * 60_000
    early = await rescorer.tick()
    assert (early.read, early.moved) == (1, 0)

    hours.ms = early.next_ms - 1
    assert await rescorer.tick() == Rescored()
    hours.ms = early.next_ms
    assert await rescorer.tick() == Rescored(read=1, moved=1)

    assert (written - await score(house, task)) / POINT == pytest.approx(1.0, abs=0.01)


async def test_until_its_deadline_a_task_is_moved_by_one_point_after_the_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(monkeypatch)
    task = await urgent(house, 60, age=False)
    rescorer = a_rescorer(house)
    scores = [await score(house, task)]

    while (tick := await rescorer.tick()).next_ms:
        hours.ms = tick.next_ms
        scores.append(await score(house, task))

    moves = [(a - b) / POINT for a, b in pairwise(scores) if a != b]
    assert moves[:-1] == pytest.approx([1.0] * (len(moves) - 1), abs=0.01)
    whole = deadline_boost(0) - deadline_boost(3600)
    assert (scores[0] - await score(house, task)) / POINT == pytest.approx(whole, abs=0.05)


async def test_without_anything_near_there_is_no_time_to_come_back(house: House) -> None:
    await urgent(house, 60 * 24 * 30)

    assert (await a_rescorer(house).tick()).next_ms == 0


async def test_what_was_left_over_is_gone_on_with_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIMIT", 1)
    hours = Hours(monkeypatch)
    await urgent(house, 10)

    assert (await a_rescorer(house).tick()).next_ms == hours.ms
