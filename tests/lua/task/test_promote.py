"""promote: a task that is due may run; not earlier, and not before its dependencies."""

from __future__ import annotations

from rqueue import State
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, mailbox_lines, run_move, waiting_claim

TERMS: dict[str, Argument] = {
    "limit": 100, "tries": 100, "events": 1000, "woken": 100, "back": 100,
}  # fmt: skip
READY = {
    "created": "*", "def0": "*", "entry": "*", "lane": "1", "score": "*", "state": "READY",
}  # fmt: skip


async def test_a_retry_that_is_due_may_be_claimed(harness: Harness) -> None:
    lease = await harness.running()
    await lease.park(60)
    await harness.make_due(lease.id)

    reply = await run_move(harness, "task/promote", TERMS)

    assert reply == ["OK", 0, 1, "0"]
    found = await all_keys(harness, a=lease.id)
    assert found.pop("events")
    assert found == LANES | W1 | {
        "task:a": READY | {
            "holder": "* * w1", "parks": "1", "reason": "rate_limit", "settled": "park 1:*",
            "token": "1:*",
        },
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }  # fmt: skip


async def test_a_scheduled_task_whose_time_has_come_may_be_claimed(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    await harness.make_due(task)

    reply = await run_move(harness, "task/promote", TERMS)

    assert reply == ["OK", 0, 1, "0"]
    found = await all_keys(harness, a=task)
    assert found == LANES | {
        "task:a": READY,
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
        "events": [{"event": "task.ready", "task": "a", "detail": "1"}],
    }


async def test_nothing_is_promoted_early(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    due = await harness.client.zscore(harness.keys.delayed(), task.ulid)
    before = await harness.dump()

    reply = await run_move(harness, "task/promote", TERMS)

    assert reply == ["OK", 0, 0, f"{due:.0f}"]
    assert await harness.dump() == before


async def test_a_scheduled_task_still_waits_for_its_dependency(harness: Harness) -> None:
    dependency = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[dependency.id])).id
    await harness.make_due(dependent)

    reply = await run_move(harness, "task/promote", TERMS)

    found = await all_keys(harness, a=dependency.id, b=dependent)
    assert reply == ["OK", 0, 0, "0"]
    assert (found["waits:b"], found["blocked"], found["dependents:a"]) == (["a"], ["b"], ["b"])
    assert "delayed" not in found
    await dependency.complete()
    assert (await harness.task(dependent)).state is State.READY


async def test_a_task_still_waits_for_its_time_after_its_dependency(harness: Harness) -> None:
    dependency = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[dependency.id])).id
    await dependency.complete()

    assert (await harness.task(dependent)).state is State.PENDING
    assert (await all_keys(harness, b=dependent))["waits:b"] == ["@time"]

    await harness.make_due(dependent)
    assert await run_move(harness, "task/promote", TERMS) == ["OK", 0, 1, "0"]


async def test_the_reply_has_the_time_of_the_next_due_task(harness: Harness) -> None:
    soon, later = [(await harness.queue.enqueue("code", {}, delay=d)).id for d in (60, 120)]
    await harness.make_due(soon)

    reply = await run_move(harness, "task/promote", TERMS)

    due = await harness.client.zscore(harness.keys.delayed(), later.ulid)
    assert reply == ["OK", 0, 1, f"{due:.0f}"]


async def test_the_reply_has_more_where_the_limit_was_reached(harness: Harness) -> None:
    for _ in range(3):
        await harness.make_due((await harness.queue.enqueue("code", {}, delay=60)).id)

    steps = [await run_move(harness, "task/promote", TERMS | {"limit": 2}) for _ in range(2)]

    assert [step[:3] for step in steps] == [["OK", 1, 2], ["OK", 0, 1]]


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    waiter = await waiting_claim(harness)
    await harness.make_due(task)

    await run_move(harness, "task/promote", TERMS)

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 1:")


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await harness.make_due((await harness.queue.enqueue("code", {}, delay=60)).id)
    await run_move(harness, "task/promote", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "task/promote", TERMS) == ["OK", 0, 0, "0"]
    assert await harness.dump() == before


async def ready_events(harness: Harness) -> list[tuple[str, str]]:
    """The tasks of each task.ready event, and their number."""
    events = [event for _, event in await harness.client.xrange(harness.keys.events())]
    return [
        (event[b"task"].decode(), event[b"detail"].decode())
        for event in events
        if event[b"event"] == b"task.ready"
    ]


async def test_tasks_that_waited_last_for_their_time_are_emitted_in_one_event(
    harness: Harness,
) -> None:
    tasks = [(await harness.queue.enqueue("code", {}, delay=60)).id for _ in range(2)]
    dependency = (await harness.queue.enqueue("code")).id
    dependent = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[dependency])).id
    for task in [*tasks, dependent]:
        await harness.make_due(task)

    await run_move(harness, "task/promote", TERMS)

    ids, number = (await ready_events(harness))[0]
    assert (sorted(ids.split()), number) == (sorted(task.ulid for task in tasks), "2")
    await run_move(harness, "task/promote", TERMS)
    assert len(await ready_events(harness)) == 1


async def test_a_promoted_retry_is_not_emitted(harness: Harness) -> None:
    lease = await harness.running()
    await lease.park(60)
    await harness.make_due(lease.id)

    await run_move(harness, "task/promote", TERMS)

    assert await ready_events(harness) == []
