"""The promoter moves all that time moves, in bounded steps, however many of it run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Call, State
from rqueue.clock import SYSTEM
from rqueue.services import promoter as service
from rqueue.services.promoter import Promoted, Promoter
from rqueue.store.leases import Settled, completing
from rqueue.store.passage import promote
from rqueue.store.shard import TOLD
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask, mail, parked


async def delayed(house: House, count: int, **options: Any) -> list[str]:
    """Tasks whose time has come and that nobody has promoted."""
    call = Call("code", {}, {"delay": 60, **options})
    ids = [handle.id for handle in await house.queue.enqueue_many([call] * count)]
    await house.client.zadd(house.keys.delayed(), {task.ulid: 1 for task in ids})
    return list(ids)


async def test_an_empty_queue_has_nothing_to_move(house: House) -> None:
    assert await house.promoter.tick() == Promoted(0, 0, 0, 0)
    assert await house.dump() == {}


async def test_a_tick_makes_ready_what_is_due(house: House) -> None:
    await delayed(house, 3)

    assert await house.promoter.tick() == Promoted(3, 0, 0, 0)
    assert (await house.queue.counts())[State.READY] == 3


async def test_a_tick_goes_through_more_than_one_step(house: House) -> None:
    await delayed(house, 2500)

    assert (await promote(house.queue.shard)).moved == 1000
    assert (await house.promoter.tick()).promoted == 1500
    assert (await house.queue.counts())[State.READY] == 2500


async def test_a_tick_ends_after_so_many_steps_and_the_next_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    await delayed(house, 1200)

    ticks = [(await house.promoter.tick()).promoted for _ in range(3)]

    assert ticks == [1000, 200, 0]


async def test_it_says_when_the_next_is_due(house: House) -> None:
    await delayed(house, 1)
    later = (await house.queue.enqueue("code", {}, delay=60)).id

    promoted = await house.promoter.tick()

    due = await house.client.zscore(house.keys.delayed(), later.ulid)
    assert (promoted.promoted, promoted.next_ms) == (1, due)


async def test_a_handoff_that_was_not_taken_comes_back(house: House) -> None:
    waiter = await parked(house)
    task = (await house.queue.enqueue("code")).id
    assert len(await mail(house, waiter)) == 1
    await house.client.zadd(house.keys.handoffs(), {f"{task.ulid}:1": 1})

    promoted = await house.promoter.tick()

    assert promoted == Promoted(0, 1, 0, 0)
    assert (await house.task(task)).state is State.READY


async def test_a_deadline_that_has_passed_ends_its_task(house: House) -> None:
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    dead = (await house.queue.enqueue("code", {}, on_deadline="fail", **options)).id
    gone = (await house.queue.enqueue("code", {}, on_deadline="cancel", **options)).id
    child = (await house.queue.enqueue("code", {}, depends_on=[gone])).id
    await house.client.zadd(house.keys.deadlines(), {dead.ulid: 1, gone.ulid: 1})

    promoted = await house.promoter.tick()

    states = [(await house.task(task)).state for task in (dead, gone, child)]
    assert promoted.expired == 2
    assert states == [State.DEAD_LETTERED, State.CANCELLED, State.CANCELLED]


async def test_one_that_expires_is_not_promoted_first(house: House) -> None:
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    (task,) = await delayed(house, 1, on_deadline="fail", **options)
    await house.client.zadd(house.keys.deadlines(), {task[-26:]: 1})

    assert await house.promoter.tick() == Promoted(0, 0, 1, 0)


async def test_what_a_completion_left_untold_is_told(house: House) -> None:
    parent = await house.running()
    call = Call("code", {}, {"depends_on": [parent.id]})
    await house.queue.enqueue_many([call] * 1500)
    rows = [Settled(parent.id.ulid, parent.token, b"")]
    # As a caller does who dies before it can go on.
    await house.queue.shard.run("task/complete", completing(house.queue.shard), rows)
    assert (await house.queue.counts())[State.READY] == TOLD

    await house.promoter.tick()

    assert (await house.queue.counts())[State.READY] == 1500
    assert not {"unblocking", "blocked"} & set(await afterwards(house))


async def test_two_at_once_move_each_task_once(house: House) -> None:
    await delayed(house, 50)
    other = Promoter(house.queue.shard)

    ticks = await asyncio.gather(house.promoter.tick(), other.tick())

    leases = await house.queue.claim(worker="w1", n=100)
    assert sum(tick.promoted for tick in ticks) == 50
    assert len({lease.id for lease in leases}) == len(leases) == 50


async def test_a_second_tick_changes_nothing(house: House) -> None:
    await delayed(house, 3)
    await house.promoter.tick()
    before = await house.dump()

    assert await house.promoter.tick() == Promoted(0, 0, 0, 0)
    assert await house.dump() == before


async def test_all_who_wait_are_answered_in_the_end(house: House) -> None:
    waiters = [await parked(house, f"w{at}") for at in range(120)]
    await delayed(house, 120)

    await house.promoter.tick()

    assert [len(await mail(house, waiter)) for waiter in waiters] == [1] * 120
    assert await ask(house, "queue/answer", {"numbers": "[1]", "tries": 100}) == ["OK", 0, "0"]
