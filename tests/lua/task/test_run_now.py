"""run_now: a task's waiting for its time is over; for nothing else."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import afterwards, ask, mail, parked


def about(task: str, request: str = "r1") -> dict[str, Argument]:
    return {"task": task, "request": request, "tries": 100, "events": 1000, "memo_ms": 60_000}


async def test_one_task_may_run_whatever_its_time(harness: Harness) -> None:
    one, two = [(await harness.queue.enqueue("code", {}, delay=60)).id for _ in range(2)]

    said = await ask(harness, "task/run_now", about(one.ulid))

    found = await afterwards(harness, a=one, b=two)
    assert said == ["OK", 0, 1]
    assert (found["lane:1"], found["delayed"], found["blocked"]) == (["a"], ["b"], ["b"])
    assert (found["waits:b"], found.get("waits:a")) == (["@time"], None)


async def test_a_task_that_is_ready_stays_so(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    before = await everything(harness)

    said = await ask(harness, "task/run_now", about(task.ulid))

    assert said == ["OK", 0, 0]
    assert await everything(harness) == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    said = await ask(harness, "task/run_now", about("01HZZZZZZZZZZZZZZZZZZZZZZZ"))

    assert said == ["GONE"]
    assert await harness.dump() == {}


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "DEAD_LETTERED", "CANCELLED"])
async def test_one_that_does_not_wait_is_left_alone(harness: Harness, state: str) -> None:
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

    said = await ask(harness, "task/run_now", about(lease.id.ulid))

    assert said == ["STATE", state]
    assert await harness.dump() == before


async def test_one_that_waits_for_a_parent_goes_on_waiting(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    child = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[parent])).id

    said = await ask(harness, "task/run_now", about(child.ulid))

    found = await afterwards(harness, a=parent, b=child)
    assert said == ["OK", 0, 1]
    assert (found["waits:b"], found.get("delayed"), found["blocked"]) == (["a"], None, ["b"])


async def test_the_same_request_again_gets_the_same_answer(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    first = await ask(harness, "task/run_now", about(task.ulid))
    before = await everything(harness)

    again = await ask(harness, "task/run_now", about(task.ulid))
    other = await ask(harness, "task/run_now", about(task.ulid, "r2"))

    assert (first, again, other) == (["OK", 0, 1], ["OK", 0, 1], ["OK", 0, 0])
    assert await everything(harness) == before


async def test_a_claim_that_waits_is_answered(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    waiter = await parked(harness)

    await ask(harness, "task/run_now", about(task.ulid))

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 1:")


async def test_one_that_waited_for_its_time_alone_is_told_of(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id

    await ask(harness, "task/run_now", about(task.ulid))
    await ask(harness, "task/run_now", about(task.ulid))

    (event,) = (await afterwards(harness, a=task))["events"]
    assert event == {"event": "task.ready", "task": "a", "detail": "1"}
