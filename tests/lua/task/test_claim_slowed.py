"""A slow-down of a type: nothing can be claimed, then one task, then ever more."""

from __future__ import annotations

import pytest

from rqueue import Lease, State
from rqueue.core.leases import Parked, park
from rqueue.core.timers import promote
from tests.harness import Harness
from tests.lua.task.keyspace import mailbox_lines, waiting_claim


async def running(harness: Harness, n: int = 1, type: str = "code") -> list[Lease]:
    """Running tasks of a type."""
    await harness.queue.enqueue_many([{"type": type}] * n)
    leases = await harness.queue.claim(worker="w1", types=[type], n=n)
    for lease in leases:
        await lease.start()
    return leases


async def slowed(harness: Harness, lease: Lease, slow_ms: int = 60_000, **how: int) -> str:
    """Parks a task, and slows its type down."""
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    (word,) = await park(harness.queue._internals.shard, [row], **how)
    return word


async def over(harness: Harness, ago_ms: int, span_ms: int = 10_000) -> None:
    """Moves the end of the block into the past."""
    seconds, micros = await harness.client.time()
    until = seconds * 1000 + micros // 1000 - ago_ms
    await harness.client.hset(harness.keys.slow("code"), mapping={"until": until, "span": span_ms})


async def claimed_number(harness: Harness, n: int = 50) -> int:
    """How many tasks of the type a claim gets."""
    return len(await harness.queue.claim(worker="w2", types=["code"], n=n))


async def test_no_task_of_the_type_can_be_claimed(harness: Harness) -> None:
    (lease,) = await running(harness)

    assert await slowed(harness, lease) == "OK"

    await harness.queue.enqueue("code")
    await harness.queue.enqueue("review")
    (other,) = await harness.queue.claim(worker="w2", n=9)
    assert other.task.type == "review"
    found = await harness.task(lease.id)
    assert (found.state, found.attempts, found.parks) == (State.RETRYING, 0, 1)
    (*_, event) = await harness.client.xrange(harness.keys.events())
    assert event[1][b"event"] == b"type.slowed"


async def test_a_shorter_slow_down_does_not_end_a_longer_one(harness: Harness) -> None:
    one, two = await running(harness, 2)
    await slowed(harness, one, 60_000)
    before = await harness.client.hget(harness.keys.slow("code"), "until")

    await slowed(harness, two, 1_000)

    assert await harness.client.hget(harness.keys.slow("code"), "until") == before


@pytest.mark.parametrize(("ago_ms", "number"), [(0, 1), (1_000, 2), (4_100, 16)])
async def test_after_it_ever_more_tasks_can_be_claimed(
    harness: Harness, ago_ms: int, number: int
) -> None:
    (lease,) = await running(harness)
    await slowed(harness, lease)
    await harness.queue.enqueue_many([{"type": "code"}] * 100)

    # Steps of ten minutes each: none ends during the test.
    await over(harness, ago_ms * 600, 6_000_000)

    assert await claimed_number(harness) == number
    assert await claimed_number(harness) == 0
    assert await harness.client.zscore(harness.keys.wakes(), "code") is not None


async def test_after_the_recovery_all_tasks_can_be_claimed(harness: Harness) -> None:
    (lease,) = await running(harness)
    await slowed(harness, lease)
    await harness.queue.enqueue_many([{"type": "code"}] * 100)

    await over(harness, 10_001)

    assert await claimed_number(harness) == 50
    assert await harness.client.exists(harness.keys.slow("code"), harness.keys.slowed()) == 0


async def test_a_waiting_claim_is_answered_when_the_block_ends(harness: Harness) -> None:
    (lease,) = await running(harness)
    await slowed(harness, lease)
    waiter = await waiting_claim(harness)
    await harness.queue.enqueue("code")
    assert await mailbox_lines(harness, waiter) == []

    await over(harness, 0, 6_000_000)
    await harness.client.zadd(harness.keys.wakes(), {"code": 1})
    await promote(harness.queue._internals.shard)

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")


async def test_another_gate_of_the_type_does_not_change_its_time(harness: Harness) -> None:
    (lease,) = await running(harness)
    await slowed(harness, lease)
    await harness.queue.enqueue("code")
    waiter = await waiting_claim(harness)
    until = int(await harness.client.hget(harness.keys.slow("code"), "until"))

    await harness.client.zadd(harness.keys.wakes(), {"code": 1})
    done = await promote(harness.queue._internals.shard)

    assert done.next_ms == until
    assert await mailbox_lines(harness, waiter) == []


async def test_a_task_that_was_parked_too_often_is_not_parked_again(harness: Harness) -> None:
    (lease,) = await running(harness)
    await harness.client.hset(harness.keys.task(lease.id.ulid), "parks", 20)
    before = await harness.dump()

    assert await slowed(harness, lease, most=20) == "STATE:SPENT"

    assert await harness.dump() == before


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    (lease,) = await running(harness)
    await slowed(harness, lease)
    before = await harness.dump()

    assert await slowed(harness, lease) == "OK"

    assert await harness.dump() == before
