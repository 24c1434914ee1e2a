"""release: a released lease spends no attempt, and the task keeps its place."""

from __future__ import annotations

import pytest

from rqueue import Lease
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import (
    LANES,
    W1,
    WAITING_CLAIM,
    all_keys,
    expiring_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {**ANSWER_LIMITS}
READY = {
    "def0": "*", "entry": "*", "holder": "* 0 w1", "lane": "1", "score": "*",
    "settled": "release 1:*", "state": "READY", "token": "1:*",
}  # fmt: skip


def row(lease: Lease) -> tuple[Argument, ...]:
    return (lease.id.ulid, lease.token)


async def test_a_released_task_may_be_claimed_and_spent_no_attempt(harness: Harness) -> None:
    lease = await harness.claimed()

    reply = await run_move(harness, "task/release", TERMS, [row(lease)])

    assert reply == ["OK", 0, "OK"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": READY,
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }
    assert await expiring_keys(harness) == set()
    assert (await harness.task(lease.id)).attempts == 0


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_any_leased_task_may_be_released(harness: Harness, state: str) -> None:
    lease = await harness.claimed()
    if state != "CLAIMED":
        await lease.start()
    if state == "VALIDATING":
        await lease.validate()

    reply = await run_move(harness, "task/release", TERMS, [row(lease)])

    assert reply == ["OK", 0, "OK"]
    found = await all_keys(harness, a=lease.id)
    assert (found["ready"], found["lane:1"]) == ((["a"], {}), ["a"])
    assert found["stats"] == {"submitted": 1}


async def test_a_released_task_keeps_its_place_in_the_lane(harness: Harness) -> None:
    first, second, third = await harness.queue.enqueue_many([harness.queue.call("code")] * 3)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=2)

    await run_move(harness, "task/release", TERMS, [row(lease) for lease in reversed(leases)])

    again = await harness.queue.claim(worker="w1", types=["code"], n=3)
    assert [lease.id for lease in again] == [first.id, second.id, third.id]


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    lease = await harness.claimed()
    waiter = await waiting_claim(harness)

    reply = await run_move(harness, "task/release", TERMS, [row(lease)])

    token = (await harness.client.hget(harness.keys.task(lease.id.ulid), "token")).decode()
    assert reply == ["OK", 0, "OK"]
    assert await mailbox_lines(harness, waiter) == [f"tasks 1 {lease.id.ulid} {token}"]
    assert token != lease.token
    assert await all_keys(harness, a=lease.id) == LANES | WAITING_CLAIM | {
        "task:a": READY | {"state": "CLAIMED", "token": "2:*", "holder": "* 0 w2"},
        "ready": (["a"], {"a": "w2"}),
        "handoffs": ["a:2"],
        "mail:*": [f"tasks 1 a {token}"],
        "stats": {"1:CLAIMED": 1, "submitted": 1},
        "waiter:w1": "*",
        "waiter:w2": "*",
        "workers": ["w1", "w2"],
    }
    assert await expiring_keys(harness) == {"mail:*", "profile:*"}


async def test_the_reply_has_more_where_some_claims_were_not_checked(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code")] * 2)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=2)
    one, two = await waiting_claim(harness, "w2"), await waiting_claim(harness, "w3")

    reply = await run_move(
        harness, "task/release", {**ANSWER_LIMITS, "tries": 1}, [row(lease) for lease in leases]
    )

    assert reply == ["OK", 1, "OK", "OK"]
    assert (len(await mailbox_lines(harness, one)), len(await mailbox_lines(harness, two))) == (
        1,
        0,
    )


async def test_a_delivered_task_that_was_released_is_not_recalled(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await harness.queue.enqueue("code")
    (grant,) = (await waiter.claim(0)).grants
    await harness.client.zadd(harness.keys.deliveries(), {f"{grant.task}:1": 1})

    await run_move(harness, "task/release", TERMS, [(grant.task, grant.token)])

    assert await harness.client.exists(harness.keys.deliveries()) == 0


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    lease = await harness.claimed()
    first = await run_move(harness, "task/release", TERMS, [row(lease)])
    before = await harness.dump()

    second = await run_move(harness, "task/release", TERMS, [row(lease)])

    assert second == first
    assert await harness.dump() == before


async def test_a_repeated_call_after_another_claim_gets_the_same_reply(harness: Harness) -> None:
    lease = await harness.claimed()
    await lease.release()
    await harness.queue.claim(worker="w2", types=["code"])
    before = await harness.dump()

    assert await run_move(harness, "task/release", TERMS, [row(lease)]) == ["OK", 0, "OK"]
    assert await harness.dump() == before


async def test_a_stale_token_changes_nothing(harness: Harness) -> None:
    stale = await harness.claimed()
    await harness.age(stale, 3600)
    await harness.reaper.tick()
    await harness.queue.claim(worker="w2", types=["code"])
    before = await harness.dump()

    assert await run_move(harness, "task/release", TERMS, [row(stale)]) == ["OK", 0, "LOST"]
    assert await harness.dump() == before


async def test_an_ended_task_is_lost(harness: Harness) -> None:
    first = await harness.running()
    await first.release()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await harness.dump()

    assert await run_move(harness, "task/release", TERMS, [row(second)]) == ["OK", 0, "LOST"]
    assert await harness.dump() == before
