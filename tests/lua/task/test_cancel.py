"""cancel: a task ends in whatever state it is, and its holder is fenced."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import LeaseLost
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, expiring_keys, run_move, waiting_claim

HOW = '{"archive":"0","ttl":60000,"events":1000}'
TERMS: dict[str, Argument] = {
    "reason": "no need", "dependents": "cascade", "limit": 1000, "how": HOW, "request": "r1",
    **ANSWER_LIMITS,
}  # fmt: skip
ENDED = {
    "def0": "*", "finished": "*", "lane": "1", "score": "*", "settled": "cancel r1",
    "state": "CANCELLED", "why": "no need",
}  # fmt: skip
HELD = {"entry": "*", "token": "1:*"}
EVENTS = [{"event": "task.cancelled", "task": "a", "detail": "no need"}]
STATS = {"1:CANCELLED": 1, "submitted": 1}


async def cancelled(harness: Harness, task: str) -> list[object]:
    return await run_move(harness, "task/cancel", TERMS, [(task[-26:],)])


async def brought_to(harness: Harness, state: str) -> Lease:
    """A claimed task, and then in a later state."""
    lease = await harness.claimed()
    if state != "CLAIMED":
        await lease.start()
    match state:
        case "VALIDATING":
            await lease.validate()
        case "RETRYING":
            await lease.park(60)
        case "COMPLETED":
            await lease.complete()
        case "DEAD_LETTERED":
            await lease.fail(permanent=True)
    return lease


async def test_a_ready_task_leaves_its_lane(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id

    reply = await cancelled(harness, task)

    assert reply == ["OK", 0, 1, "OK"]
    assert await all_keys(harness, a=task) == LANES | {
        "task:a": ENDED | {"entry": "*"},
        "ready": ([], {}),
        "events": EVENTS,
        "stats": STATS,
    }
    assert await expiring_keys(harness, a=task) == {"task:a"}


async def test_a_scheduled_task_leaves_its_indexes(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id

    reply = await cancelled(harness, task)

    assert reply == ["OK", 0, 1, "OK"]
    assert await all_keys(harness, a=task) == LANES | {
        "task:a": ENDED | {"created": "*", "due": "*"},
        "events": EVENTS,
        "stats": STATS,
    }


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_a_held_task_is_taken_from_its_holder(harness: Harness, state: str) -> None:
    lease = await brought_to(harness, state)

    reply = await cancelled(harness, lease.id)

    holder = "* 0 w1" if state == "CLAIMED" else "* * w1"
    owes = {} if state == "CLAIMED" else {"owed": f"{lease.token} 0 w1"}
    assert reply == ["OK", 0, 1, "OK"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": ENDED | HELD | {"holder": holder} | owes,
        "mail:@w1": [f"fenced a {lease.token}"],
        "ready": ([], {}),
        "events": EVENTS,
        "stats": STATS,
    }


async def test_a_retrying_task_is_not_retried(harness: Harness) -> None:
    lease = await brought_to(harness, "RETRYING")

    reply = await cancelled(harness, lease.id)

    found = await all_keys(harness, a=lease.id)
    assert reply == ["OK", 0, 1, "OK"]
    assert set(found) == {*LANES, *W1, "task:a", "ready", "events", "stats"}
    assert (found["task:a"]["state"], found["task:a"]["why"]) == ("CANCELLED", "no need")
    assert (found["ready"], found["stats"]) == (([], {}), STATS)


async def test_the_holder_of_a_cancelled_task_is_fenced(harness: Harness) -> None:
    lease = await brought_to(harness, "RUNNING")
    await cancelled(harness, lease.id)
    before = await harness.dump()

    for call in (lease.renew, lease.complete, lease.fail, lease.release, lease.validate):
        with pytest.raises(LeaseLost):
            await call()
    with pytest.raises(LeaseLost):
        await lease.park(1)

    after = await harness.dump()
    workers = harness.keys.workers()
    assert after.pop(workers) != before.pop(workers)  # a renewal is a heartbeat
    assert after == before


async def test_a_cancelled_task_is_not_claimed(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    await cancelled(harness, task)

    assert await harness.queue.claim(worker="w1", types=["code"]) == []


async def test_a_delivered_task_is_not_recalled(harness: Harness) -> None:
    await waiting_claim(harness)
    task = (await harness.queue.enqueue("code")).id

    await cancelled(harness, task)

    assert "handoffs" not in await all_keys(harness)


@pytest.mark.parametrize("state", ["COMPLETED", "DEAD_LETTERED"])
async def test_an_ended_task_is_not_changed(harness: Harness, state: str) -> None:
    lease = await brought_to(harness, state)
    before = await harness.dump()

    assert await cancelled(harness, lease.id) == ["OK", 0, 0, f"STATE:{state}"]
    assert await harness.dump() == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    assert await cancelled(harness, "01HZZZZZZZZZZZZZZZZZZZZZZZ") == ["OK", 0, 0, "GONE"]
    assert await harness.dump() == {}


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    lease = await brought_to(harness, "RUNNING")
    first = await cancelled(harness, lease.id)
    before = await harness.dump()

    second = await cancelled(harness, lease.id)

    assert (first[3], second[3]) == ("OK", "OK")
    assert await harness.dump() == before


async def test_another_call_replies_that_it_is_cancelled(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    assert await harness.queue.cancel(task) is True

    assert await harness.queue.cancel(task) is False
    assert await cancelled(harness, task) == ["OK", 0, 0, "STATE:CANCELLED"]


async def test_the_idempotency_key_is_released_and_watchers_are_notified(harness: Harness) -> None:
    options: dict[str, Any] = {"idempotency_key": "k", "external_id": "mine", "tags": ["t"]}
    task = (await harness.queue.enqueue("code", {}, **options)).id
    await run_move(harness, "task/watch", {"box": "b1", "keep_ms": 9000}, [(task.ulid,)])

    await cancelled(harness, task)

    found = await all_keys(harness, a=task)
    assert set(found) == {*LANES, "task:a", "ext:*", "mail:b1", "ready", "events", "stats"}
    assert (found["mail:b1"], found["ext:*"]) == (["ended a"], "a")
    assert await expiring_keys(harness, a=task) == {"task:a", "ext:*", "mail:b1"}


async def test_with_an_archive_the_keys_stay_until_the_row_is_written(
    archived_harness: Harness,
) -> None:
    task = (await archived_harness.queue.enqueue("code", {}, tags=["t"])).id
    args = TERMS | {"how": HOW.replace('"0"', '"1"')}

    await run_move(archived_harness, "task/cancel", args, [(task.ulid,)])

    found = await all_keys(archived_harness, a=task)
    assert (found["outbox"], found["tag:t"]) == ([{"a": "1 CANCELLED"}], ["a"])
    assert found["stats"] == STATS | {"outbox": 1}
    assert await expiring_keys(archived_harness, a=task) == set()


async def test_each_task_gets_its_own_word(harness: Harness) -> None:
    lease = await brought_to(harness, "COMPLETED")
    ready = (await harness.queue.enqueue("code")).id
    rows = [(ready.ulid,), (lease.id.ulid,), ("01HZZZZZZZZZZZZZZZZZZZZZZZ",)]

    reply = await run_move(harness, "task/cancel", TERMS, rows)

    assert reply == ["OK", 0, 1, "OK", "STATE:COMPLETED", "GONE"]
