"""expire: a deadline ends who waits and asked for that; who is in hand is looked at again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.clock import SYSTEM
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, afterwards, ask, expiring

HOW = '{"archive":"0","ttl":60000,"events":1000}'
TERMS: dict[str, Argument] = {"limit": 100, "how": HOW, "again_ms": 60_000}
TASK = {"def0": "*", "flags": "m", "lane": "1", "more": "*", "score": "*", "finished": "*"}


def due_soon(rule: str = "fail") -> dict[str, Any]:
    return {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": rule}


async def overdue(house: House, task: str) -> None:
    """Lets a deadline have passed."""
    await house.client.zadd(house.keys.deadlines(), {task[-26:]: 1})


async def late(house: House, rule: str, **options: Any) -> TaskId:
    task = (await house.queue.enqueue("code", {}, **due_soon(rule), **options)).id
    await overdue(house, task)
    return task


async def test_one_that_must_not_be_late_is_dead(house: House) -> None:
    task = await late(house, "fail")

    said = await ask(house, "task/expire", TERMS)

    assert said == ["OK", 0, 1]
    assert await afterwards(house, a=task) == LANES | {
        "task:a": TASK | {
            "entry": "*", "reason": "timeout", "settled": "expire", "state": "DEAD_LETTERED",
            "why": "deadline passed",
        },
        "ready": ([], {}),
        "dead": ["a"],
        "events": [{"event": "task.dead_lettered", "task": "a", "detail": "timeout"}],
        "stats": {"1:DEAD_LETTERED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring(house) == set()


async def test_one_that_is_of_no_use_late_is_cancelled(house: House) -> None:
    task = await late(house, "cancel")

    said = await ask(house, "task/expire", TERMS)

    assert said == ["OK", 0, 1]
    assert await afterwards(house, a=task) == LANES | {
        "task:a": TASK | {
            "entry": "*", "settled": "cancel", "state": "CANCELLED", "why": "deadline passed",
        },
        "ready": ([], {}),
        "events": [{"event": "task.cancelled", "task": "a", "detail": "deadline passed"}],
        "stats": {"1:CANCELLED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring(house, a=task) == {"task:a"}


async def test_one_that_runs_late_all_the_same_only_leaves_the_list(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, **due_soon("run"))).id
    await house.client.zadd(house.keys.deadlines(), {task.ulid: 1})

    said = await ask(house, "task/expire", TERMS)

    assert said == ["OK", 0, 0]
    assert (await house.task(task)).state is State.READY
    assert await house.client.exists(house.keys.deadlines()) == 0


@pytest.mark.parametrize("rule", ["fail", "cancel"])
async def test_a_scheduled_one_leaves_what_it_waits_in(house: House, rule: str) -> None:
    parent = (await house.queue.enqueue("code")).id
    task = await late(house, rule, delay=60, depends_on=[parent])

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 1]

    found = await afterwards(house, a=task, p=parent)
    assert not {"waits:a", "dependents:p", "blocked", "delayed", "deadlines"} & set(found)


@pytest.mark.parametrize("rule", ["fail", "cancel"])
async def test_a_retry_is_not_tried_too_late(house: House, rule: str) -> None:
    lease = await house.running(**due_soon(rule))
    await lease.park(60)
    await overdue(house, lease.id)

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 1]

    found = await afterwards(house, a=lease.id)
    state = "DEAD_LETTERED" if rule == "fail" else "CANCELLED"
    assert found["task:a"]["state"] == state
    assert found["stats"] == {f"1:{state}": 1, "submitted": 1}
    assert not {"delayed", "deadlines"} & set(found)


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_one_in_hand_runs_on_and_is_looked_at_again(house: House, state: str) -> None:
    lease = await house.claimed(**due_soon())
    if state != "CLAIMED":
        await lease.start()
    if state == "VALIDATING":
        await lease.validate()
    before = await house.dump()
    _, earliest = await ask(house, "task/read", {"limit": 1})
    await overdue(house, lease.id)

    said = await ask(house, "task/expire", TERMS)

    after = await house.dump()
    ((member, again),) = after.pop(house.keys.deadlines())
    before.pop(house.keys.deadlines())
    assert said == ["OK", 0, 0]
    assert (member.decode(), again >= int(earliest) + 60_000) == (lease.id.ulid, True)
    assert after == before


async def test_one_that_comes_back_late_expires_then(house: House) -> None:
    lease = await house.running(**due_soon())
    await overdue(house, lease.id)
    await ask(house, "task/expire", TERMS)
    await lease.release()
    await overdue(house, lease.id)

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 1]
    assert (await afterwards(house, a=lease.id))["dead"] == ["a"]


async def test_one_that_ended_in_time_is_forgotten(house: House) -> None:
    lease = await house.running(**due_soon())
    await lease.complete()
    before = await house.dump()
    assert house.keys.deadlines() not in before
    await overdue(house, lease.id)

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before


async def test_a_deadline_to_come_is_left_alone(house: House) -> None:
    await house.queue.enqueue("code", {}, **due_soon())
    before = await house.dump()

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before


async def test_what_depends_on_a_cancelled_one_is_left_to_the_cascade(house: House) -> None:
    task = await late(house, "cancel")
    child = (await house.queue.enqueue("code", {}, depends_on=[task])).id

    await ask(house, "task/expire", TERMS)

    found = await afterwards(house, a=task, b=child)
    assert found["cancelling"] == {"children a": "cascade cancelled"}
    await house.promoter.tick()
    assert (await house.task(child)).cancel_reason == f"Parent {task} cancelled"


async def test_what_expires_goes_to_the_archive(archived_house: House) -> None:
    dead, gone = await late(archived_house, "fail"), await late(archived_house, "cancel")

    await ask(archived_house, "task/expire", TERMS | {"how": HOW.replace('"0"', '"1"')})

    (entry,) = (await afterwards(archived_house, a=dead, b=gone))["outbox"]
    assert entry["b"] == "1 CANCELLED"
    assert entry["a"].startswith("1 DEAD_LETTERED {")
    assert await expiring(archived_house, b=gone) == set()


async def test_a_key_is_given_up(house: House) -> None:
    await late(house, "fail", idempotency_key="k")
    await late(house, "cancel", idempotency_key="l")

    await ask(house, "task/expire", TERMS)

    assert not [key for key in await afterwards(house) if key.startswith("idem:")]


async def test_more_is_said_where_the_limit_was_reached(house: House) -> None:
    lease = await house.claimed(**due_soon())
    await overdue(house, lease.id)
    for _ in range(2):
        await late(house, "fail")

    steps = [await ask(house, "task/expire", TERMS | {"limit": 2}) for _ in range(3)]

    assert [step[1] for step in steps] == [1, 0, 0]
    assert sum(step[2] for step in steps) == 2
    assert (await afterwards(house))["stats"] == {
        "1:CLAIMED": 1, "1:DEAD_LETTERED": 2, "submitted": 3,
    }  # fmt: skip


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await late(house, "fail")
    await ask(house, "task/expire", TERMS)
    before = await house.dump()

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before


async def test_the_deadline_of_a_task_that_is_gone_is_forgotten(house: House) -> None:
    await overdue(house, "01HZZZZZZZZZZZZZZZZZZZZZZZ")

    assert await ask(house, "task/expire", TERMS) == ["OK", 0, 0]
    assert await house.dump() == {}
