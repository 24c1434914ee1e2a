"""promote: what has waited long enough may run; not earlier, and not before its parents."""

from __future__ import annotations

from rqueue import State
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import LANES, W1, afterwards, ask, mail, parked

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

    said = await ask(harness, "task/promote", TERMS)

    assert said == ["OK", 0, 1, "0"]
    found = await afterwards(harness, a=lease.id)
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

    said = await ask(harness, "task/promote", TERMS)

    assert said == ["OK", 0, 1, "0"]
    found = await afterwards(harness, a=task)
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

    said = await ask(harness, "task/promote", TERMS)

    assert said == ["OK", 0, 0, f"{due:.0f}"]
    assert await harness.dump() == before


async def test_a_scheduled_task_goes_on_waiting_for_its_parent(harness: Harness) -> None:
    parent = await harness.running()
    child = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[parent.id])).id
    await harness.make_due(child)

    said = await ask(harness, "task/promote", TERMS)

    found = await afterwards(harness, a=parent.id, b=child)
    assert said == ["OK", 0, 0, "0"]
    assert (found["waits:b"], found["blocked"], found["dependents:a"]) == (["a"], ["b"], ["b"])
    assert "delayed" not in found
    await parent.complete()
    assert (await harness.task(child)).state is State.READY


async def test_its_time_is_waited_for_after_its_parent_too(harness: Harness) -> None:
    parent = await harness.running()
    child = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[parent.id])).id
    await parent.complete()

    assert (await harness.task(child)).state is State.PENDING
    assert (await afterwards(harness, b=child))["waits:b"] == ["@time"]

    await harness.make_due(child)
    assert await ask(harness, "task/promote", TERMS) == ["OK", 0, 1, "0"]


async def test_it_says_when_the_next_is_due(harness: Harness) -> None:
    soon, later = [(await harness.queue.enqueue("code", {}, delay=d)).id for d in (60, 120)]
    await harness.make_due(soon)

    said = await ask(harness, "task/promote", TERMS)

    due = await harness.client.zscore(harness.keys.delayed(), later.ulid)
    assert said == ["OK", 0, 1, f"{due:.0f}"]


async def test_more_is_said_where_the_limit_was_reached(harness: Harness) -> None:
    for _ in range(3):
        await harness.make_due((await harness.queue.enqueue("code", {}, delay=60)).id)

    steps = [await ask(harness, "task/promote", TERMS | {"limit": 2}) for _ in range(2)]

    assert [step[:3] for step in steps] == [["OK", 1, 2], ["OK", 0, 1]]


async def test_a_claim_that_waits_is_answered(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code", {}, delay=60)).id
    waiter = await parked(harness)
    await harness.make_due(task)

    await ask(harness, "task/promote", TERMS)

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 1:")


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await harness.make_due((await harness.queue.enqueue("code", {}, delay=60)).id)
    await ask(harness, "task/promote", TERMS)
    before = await harness.dump()

    assert await ask(harness, "task/promote", TERMS) == ["OK", 0, 0, "0"]
    assert await harness.dump() == before


async def told(harness: Harness) -> list[tuple[str, str]]:
    """Who became READY, as the stream of events tells it, and how many."""
    events = [event for _, event in await harness.client.xrange(harness.keys.events())]
    return [
        (event[b"task"].decode(), event[b"detail"].decode())
        for event in events
        if event[b"event"] == b"task.ready"
    ]


async def test_those_whose_time_was_the_last_they_waited_for_are_told_of_at_once(
    harness: Harness,
) -> None:
    tasks = [(await harness.queue.enqueue("code", {}, delay=60)).id for _ in range(2)]
    parent = (await harness.queue.enqueue("code")).id
    child = (await harness.queue.enqueue("code", {}, delay=60, depends_on=[parent])).id
    for task in [*tasks, child]:
        await harness.make_due(task)

    await ask(harness, "task/promote", TERMS)

    ids, number = (await told(harness))[0]
    assert (sorted(ids.split()), number) == (sorted(task.ulid for task in tasks), "2")
    await ask(harness, "task/promote", TERMS)
    assert len(await told(harness)) == 1


async def test_a_retry_is_not_told_of_again(harness: Harness) -> None:
    lease = await harness.running()
    await lease.park(60)
    await harness.make_due(lease.id)

    await ask(harness, "task/promote", TERMS)

    assert await told(harness) == []
