"""run_now: a task no longer waits for its time; it still waits for its dependencies."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim


def about(task: str, request: str = "r1") -> dict[str, Argument]:
    return {"task": task, "request": request, "tries": 100, "events": 1000, "memo_ms": 60_000}


async def test_one_task_may_run_whatever_its_time(harness: Harness) -> None:
    one, two = [(await harness.queue.enqueue("code", {}, delay=60)).id for _ in range(2)]

    reply = await run_move(harness, "task/run_now", about(one.ulid))

    found = await all_keys(harness, a=one, b=two)
    assert reply == ["OK", 0, 1]
    assert (found["lane:1"], found["delayed"], found["blocked"]) == (["a"], ["b"], ["b"])
    assert (found["waits:b"], found.get("waits:a")) == (["@time"], None)


async def test_a_ready_task_is_not_changed(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    before = await everything(harness)

    reply = await run_move(harness, "task/run_now", about(task.ulid))

    assert reply == ["OK", 0, 0]
    assert await everything(harness) == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    reply = await run_move(harness, "task/run_now", about("01HZZZZZZZZZZZZZZZZZZZZZZZ"))

    assert reply == ["GONE"]
    assert await harness.dump() == {}


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "DEAD_LETTERED", "CANCELLED"])
async def test_a_task_that_does_not_wait_is_not_changed(harness: Harness, state: str) -> None:
    lease = await harness.claimed()
    match state:
        case "RUNNING":
            await lease.start()
        case "COMPLETED":
            await lease.start()
            await lease.complete()
        case "DEAD_LETTERED":
            await lease.fail(permanent=True)
        case "CANCELLED":
            await harness.queue.cancel(lease.id)
    before = await harness.dump()

    reply = await run_move(harness, "task/run_now", about(lease.id.ulid))

    assert reply == ["STATE", state]
    assert await harness.dump() == before


async def test_a_task_with_an_open_dependency_still_waits(harness: Harness) -> None:
    dependency = (await harness.queue.enqueue("code")).id
    dependent = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[dependency])).id

    reply = await run_move(harness, "task/run_now", about(dependent.ulid))

    found = await all_keys(harness, a=dependency, b=dependent)
    assert reply == ["OK", 0, 1]
    assert (found["waits:b"], found.get("delayed"), found["blocked"]) == (["a"], None, ["b"])


async def test_a_repeated_request_gets_the_same_reply(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    first = await run_move(harness, "task/run_now", about(task.ulid))
    before = await everything(harness)

    again = await run_move(harness, "task/run_now", about(task.ulid))
    other = await run_move(harness, "task/run_now", about(task.ulid, "r2"))

    assert (first, again, other) == (["OK", 0, 1], ["OK", 0, 1], ["OK", 0, 0])
    assert await everything(harness) == before


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    waiter = await waiting_claim(harness)

    await run_move(harness, "task/run_now", about(task.ulid))

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 1:")


async def test_a_task_that_waited_only_for_its_time_is_emitted(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id

    await run_move(harness, "task/run_now", about(task.ulid))
    await run_move(harness, "task/run_now", about(task.ulid))

    (event,) = (await all_keys(harness, a=task))["events"]
    assert event == {"event": "task.ready", "task": "a", "detail": "1"}
