"""expire: a passed deadline ends waiting tasks; leased ones are checked again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.clock import SYSTEM
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, all_keys, expiring_keys, run_move

HOW = '{"archive":"0","ttl":60000,"events":1000}'
TERMS: dict[str, Argument] = {"limit": 100, "how": HOW, "again_ms": 60_000}
TASK = {"def0": "*", "flags": "m", "lane": "1", "more": "*", "score": "*", "finished": "*"}


def due_soon(rule: str = "fail") -> dict[str, Any]:
    return {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": rule}


async def overdue(harness: Harness, task: str) -> None:
    """Moves a deadline into the past."""
    await harness.client.zadd(harness.keys.deadlines(), {task[-26:]: 1})


async def late(harness: Harness, rule: str, **options: Any) -> TaskId:
    task = (await harness.queue.enqueue("code", {}, **due_soon(rule), **options)).id
    await overdue(harness, task)
    return task


async def test_a_task_with_on_deadline_fail_is_dead(harness: Harness) -> None:
    task = await late(harness, "fail")

    reply = await run_move(harness, "task/expire", TERMS)

    assert reply == ["OK", 0, 1]
    assert await all_keys(harness, a=task) == LANES | {
        "task:a": TASK | {
            "entry": "*", "reason": "timeout", "settled": "expire", "state": "DEAD_LETTERED",
            "why": "deadline passed",
        },
        "ready": ([], {}),
        "dead": ["a"],
        "events": [{"event": "task.dead_lettered", "task": "a", "detail": "timeout"}],
        "stats": {"1:DEAD_LETTERED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring_keys(harness) == set()


async def test_a_task_with_on_deadline_cancel_is_cancelled(harness: Harness) -> None:
    task = await late(harness, "cancel")

    reply = await run_move(harness, "task/expire", TERMS)

    assert reply == ["OK", 0, 1]
    assert await all_keys(harness, a=task) == LANES | {
        "task:a": TASK | {
            "entry": "*", "settled": "cancel", "state": "CANCELLED", "why": "deadline passed",
        },
        "ready": ([], {}),
        "events": [{"event": "task.cancelled", "task": "a", "detail": "deadline passed"}],
        "stats": {"1:CANCELLED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring_keys(harness, a=task) == {"task:a"}


async def test_a_task_that_may_run_late_only_leaves_the_index(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, **due_soon("run"))).id
    await harness.client.zadd(harness.keys.deadlines(), {task.ulid: 1})

    reply = await run_move(harness, "task/expire", TERMS)

    assert reply == ["OK", 0, 0]
    assert (await harness.task(task)).state is State.READY
    assert await harness.client.exists(harness.keys.deadlines()) == 0


@pytest.mark.parametrize("rule", ["fail", "cancel"])
async def test_a_scheduled_task_leaves_its_indexes(harness: Harness, rule: str) -> None:
    parent = (await harness.queue.enqueue("code")).id
    task = await late(harness, rule, delay=60, depends_on=[parent])

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 1]

    found = await all_keys(harness, a=task, p=parent)
    assert not {"waits:a", "dependents:p", "blocked", "delayed", "deadlines"} & set(found)


@pytest.mark.parametrize("rule", ["fail", "cancel"])
async def test_a_retrying_task_is_not_retried_after_its_deadline(
    harness: Harness, rule: str
) -> None:
    lease = await harness.running(**due_soon(rule))
    await lease.park(60)
    await overdue(harness, lease.id)

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 1]

    found = await all_keys(harness, a=lease.id)
    state = "DEAD_LETTERED" if rule == "fail" else "CANCELLED"
    assert found["task:a"]["state"] == state
    assert found["stats"] == {f"1:{state}": 1, "submitted": 1}
    assert not {"delayed", "deadlines"} & set(found)


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_a_leased_task_continues_and_is_checked_again(harness: Harness, state: str) -> None:
    lease = await harness.claimed(**due_soon())
    if state != "CLAIMED":
        await lease.start()
    if state == "VALIDATING":
        await lease.validate()
    before = await harness.dump()
    _, earliest = await run_move(harness, "task/read", {"limit": 1})
    await overdue(harness, lease.id)

    reply = await run_move(harness, "task/expire", TERMS)

    after = await harness.dump()
    ((member, again),) = after.pop(harness.keys.deadlines())
    before.pop(harness.keys.deadlines())
    assert reply == ["OK", 0, 0]
    assert (member.decode(), again >= int(earliest) + 60_000) == (lease.id.ulid, True)
    assert after == before


async def test_a_task_that_is_released_late_expires_then(harness: Harness) -> None:
    lease = await harness.running(**due_soon())
    await overdue(harness, lease.id)
    await run_move(harness, "task/expire", TERMS)
    await lease.release()
    await overdue(harness, lease.id)

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 1]
    assert (await all_keys(harness, a=lease.id))["dead"] == ["a"]


async def test_a_task_that_ended_in_time_leaves_the_index(harness: Harness) -> None:
    lease = await harness.running(**due_soon())
    await lease.complete()
    before = await harness.dump()
    assert harness.keys.deadlines() not in before
    await overdue(harness, lease.id)

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_a_future_deadline_is_unchanged(harness: Harness) -> None:
    await harness.queue.enqueue("code", {}, **due_soon())
    before = await harness.dump()

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_dependents_of_a_cancelled_task_are_left_to_the_cascade(harness: Harness) -> None:
    task = await late(harness, "cancel")
    child = (await harness.queue.enqueue("code", {}, depends_on=[task])).id

    await run_move(harness, "task/expire", TERMS)

    found = await all_keys(harness, a=task, b=child)
    assert found["cancelling"] == {"children a": "cascade cancelled"}
    await harness.promoter.tick()
    assert (await harness.task(child)).cancel_reason == f"Parent {task} cancelled"


async def test_expired_tasks_go_to_the_archive(archived_harness: Harness) -> None:
    dead, gone = await late(archived_harness, "fail"), await late(archived_harness, "cancel")

    await run_move(archived_harness, "task/expire", TERMS | {"how": HOW.replace('"0"', '"1"')})

    (entry,) = (await all_keys(archived_harness, a=dead, b=gone))["outbox"]
    assert entry["b"] == "1 CANCELLED"
    assert entry["a"].startswith("1 DEAD_LETTERED {")
    assert await expiring_keys(archived_harness, b=gone) == set()


async def test_the_idempotency_key_is_released(harness: Harness) -> None:
    await late(harness, "fail", idempotency_key="k")
    await late(harness, "cancel", idempotency_key="l")

    await run_move(harness, "task/expire", TERMS)

    assert not [key for key in await all_keys(harness) if key.startswith("idem:")]


async def test_the_reply_has_more_where_the_limit_was_reached(harness: Harness) -> None:
    lease = await harness.claimed(**due_soon())
    await overdue(harness, lease.id)
    for _ in range(2):
        await late(harness, "fail")

    steps = [await run_move(harness, "task/expire", TERMS | {"limit": 2}) for _ in range(3)]

    assert [step[1] for step in steps] == [1, 0, 0]
    assert sum(step[2] for step in steps) == 2
    assert (await all_keys(harness))["stats"] == {
        "1:CLAIMED": 1, "1:DEAD_LETTERED": 2, "submitted": 3,
    }  # fmt: skip


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await late(harness, "fail")
    await run_move(harness, "task/expire", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_the_deadline_of_a_deleted_task_is_removed(harness: Harness) -> None:
    await overdue(harness, "01HZZZZZZZZZZZZZZZZZZZZZZZ")

    assert await run_move(harness, "task/expire", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == {}
