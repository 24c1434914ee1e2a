"""resume: a pause ends, and claims that waited for held tasks are answered at once."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import (
    LANES,
    WAITING_CLAIM,
    all_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {"what": "queue", "lanes": "[1]", "tries": 100}


async def test_tasks_of_a_resumed_queue_can_be_claimed(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    await harness.queue.pause()

    reply = await run_move(harness, "queue/resume", TERMS)

    assert reply == ["OK", 0]
    assert await all_keys(harness, a=task) == LANES | {
        "task:a": {"def0": "*", "entry": "*", "lane": "1", "score": "*", "state": "READY"},
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    assert lease.id == task


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_a_waiting_claim_is_answered(harness: Harness, what: str) -> None:
    waiter = await waiting_claim(harness)
    await run_move(harness, "queue/pause", {"what": what})
    task = (await harness.queue.enqueue("code")).id
    assert await mailbox_lines(harness, waiter) == []

    reply = await run_move(harness, "queue/resume", TERMS | {"what": what})

    (line,) = await mailbox_lines(harness, waiter)
    assert reply == ["OK", 0]
    assert line.startswith(f"tasks 1 {task.ulid} 1:")
    assert set(await all_keys(harness, a=task)) == {
        *LANES, *WAITING_CLAIM, "waiter:w2", "workers", "task:a", "ready", "stats", "handoffs",
        "mail:*",
    }  # fmt: skip


async def test_another_pause_still_applies(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    for what in ("queue", "type=code"):
        await run_move(harness, "queue/pause", {"what": what})
    await harness.queue.enqueue("code")

    assert await run_move(harness, "queue/resume", TERMS) == ["OK", 0]

    assert await mailbox_lines(harness, waiter) == []
    assert (await all_keys(harness))["paused"] == ["type=code"]


async def test_the_reply_has_more_where_not_all_claims_were_checked(harness: Harness) -> None:
    one, two = await waiting_claim(harness, "w2"), await waiting_claim(harness, "w3")
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 2)

    assert await run_move(harness, "queue/resume", TERMS | {"tries": 1}) == ["OK", 1]

    assert (len(await mailbox_lines(harness, one)), len(await mailbox_lines(harness, two))) == (
        1,
        0,
    )


async def test_the_reply_has_no_more_where_no_claim_can_be_served(harness: Harness) -> None:
    await waiting_claim(harness, "w2")
    await waiting_claim(harness, "w3")
    for what in ("queue", "type=code"):
        await run_move(harness, "queue/pause", {"what": what})
    await harness.queue.enqueue("code")

    assert await run_move(harness, "queue/resume", TERMS | {"tries": 1}) == ["OK", 0]


async def test_all_waiting_claims_are_answered_in_the_end(harness: Harness) -> None:
    waiters = [await waiting_claim(harness, f"w{at}") for at in range(120)]
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 120)

    await harness.queue.resume()

    assert [len(await mailbox_lines(harness, waiter)) for waiter in waiters] == [1] * 120


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.pause()
    first = await run_move(harness, "queue/resume", TERMS)
    before = await everything(harness)

    assert await run_move(harness, "queue/resume", TERMS) == first
    assert await everything(harness) == before
