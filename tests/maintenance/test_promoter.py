"""The promoter moves all tasks whose time has come, in bounded steps, however many
promoters run.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Call, State
from rqueue.clock import SYSTEM
from rqueue.core.leases import Settled, completing
from rqueue.core.timers import promote
from rqueue.maintenance import promoter as service
from rqueue.maintenance.promoter import Promoted, Promoter
from rqueue.store.shard import UNBLOCK_LIMIT
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim


async def delayed(harness: Harness, count: int, **options: Any) -> list[str]:
    """Tasks whose time has come and that are not promoted yet."""
    call = Call("code", {}, {"delay": 60, **options})
    ids = [handle.id for handle in await harness.queue.enqueue_many([call] * count)]
    await harness.client.zadd(harness.keys.delayed(), {task.ulid: 1 for task in ids})
    return list(ids)


async def test_an_empty_queue_has_nothing_to_move(harness: Harness) -> None:
    assert await harness.promoter.tick() == Promoted(0, 0, 0, 0)
    assert await harness.dump() == {}


async def test_a_tick_makes_due_tasks_ready(harness: Harness) -> None:
    await delayed(harness, 3)

    assert await harness.promoter.tick() == Promoted(3, 0, 0, 0)
    assert (await harness.queue.counts())[State.READY] == 3


async def test_a_tick_takes_several_steps(harness: Harness) -> None:
    await delayed(harness, 2500)

    assert (await promote(harness.queue._internals.shard)).moved == 1000
    assert (await harness.promoter.tick()).promoted == 1500
    assert (await harness.queue.counts())[State.READY] == 2500


async def test_a_tick_ends_after_a_bounded_number_of_steps_and_the_next_continues(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    await delayed(harness, 1200)

    ticks = [(await harness.promoter.tick()).promoted for _ in range(3)]

    assert ticks == [1000, 200, 0]


async def test_a_tick_returns_when_the_next_task_is_due(harness: Harness) -> None:
    await delayed(harness, 1)
    later = (await harness.queue.enqueue("code", {}, delay=60)).id

    promoted = await harness.promoter.tick()

    due = await harness.client.zscore(harness.keys.delayed(), later.ulid)
    assert (promoted.promoted, promoted.next_ms) == (1, due)


async def test_a_delivery_that_was_not_started_is_recalled(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    task = (await harness.queue.enqueue("code")).id
    assert len(await mailbox_lines(harness, waiter)) == 1
    await harness.client.zadd(harness.keys.deliveries(), {f"{task.ulid}:1": 1})

    promoted = await harness.promoter.tick()

    assert promoted == Promoted(0, 1, 0, 0)
    assert (await harness.task(task)).state is State.READY


async def test_a_deadline_that_has_passed_ends_its_task(harness: Harness) -> None:
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    dead = (await harness.queue.enqueue("code", {}, on_deadline="fail", **options)).id
    gone = (await harness.queue.enqueue("code", {}, on_deadline="cancel", **options)).id
    child = (await harness.queue.enqueue("code", {}, depends_on=[gone])).id
    await harness.client.zadd(harness.keys.deadlines(), {dead.ulid: 1, gone.ulid: 1})

    promoted = await harness.promoter.tick()

    states = [(await harness.task(task)).state for task in (dead, gone, child)]
    assert promoted.expired == 2
    assert states == [State.DEAD_LETTERED, State.CANCELLED, State.CANCELLED]


async def test_an_expired_task_is_not_promoted_first(harness: Harness) -> None:
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    (task,) = await delayed(harness, 1, on_deadline="fail", **options)
    await harness.client.zadd(harness.keys.deadlines(), {task[-26:]: 1})

    assert await harness.promoter.tick() == Promoted(0, 0, 1, 0)


async def test_dependents_that_a_completion_left_open_are_resolved(harness: Harness) -> None:
    parent = await harness.running()
    call = Call("code", {}, {"depends_on": [parent.id]})
    await harness.queue.enqueue_many([call] * 1500)
    rows = [Settled(parent.id.ulid, parent.token, b"")]
    # Like a caller that crashes before it continues.
    await harness.queue._internals.shard.run(
        "task/complete", completing(harness.queue._internals.shard), rows
    )
    assert (await harness.queue.counts())[State.READY] == UNBLOCK_LIMIT

    await harness.promoter.tick()

    assert (await harness.queue.counts())[State.READY] == 1500
    assert not {"unblocking", "blocked"} & set(await all_keys(harness))


async def test_two_concurrent_promoters_move_each_task_once(harness: Harness) -> None:
    await delayed(harness, 50)
    other = Promoter(harness.queue._internals.shard)

    ticks = await asyncio.gather(harness.promoter.tick(), other.tick())

    leases = await harness.queue.claim(worker="w1", n=100)
    assert sum(tick.promoted for tick in ticks) == 50
    assert len({lease.id for lease in leases}) == len(leases) == 50


async def test_a_second_tick_changes_nothing(harness: Harness) -> None:
    await delayed(harness, 3)
    await harness.promoter.tick()
    before = await harness.dump()

    assert await harness.promoter.tick() == Promoted(0, 0, 0, 0)
    assert await harness.dump() == before


async def test_all_waiting_claims_are_answered_in_the_end(harness: Harness) -> None:
    waiters = [await waiting_claim(harness, f"w{at}") for at in range(120)]
    await delayed(harness, 120)

    await harness.promoter.tick()

    assert [len(await mailbox_lines(harness, waiter)) for waiter in waiters] == [1] * 120
    assert await run_move(harness, "queue/answer", {"numbers": "[1]", "tries": 100}) == [
        "OK",
        0,
        "0",
    ]
