"""promote: what has waited long enough may run; not earlier, and not before its parents."""

from __future__ import annotations

from rqueue import State
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {
    "limit": 100, "tries": 100, "events": 1000, "woken": 100, "back": 100,
}  # fmt: skip
READY = {
    "created": "*", "def0": "*", "entry": "*", "lane": "1", "score": "*", "state": "READY",
}  # fmt: skip


async def test_a_retry_that_is_due_may_be_claimed(house: House) -> None:
    lease = await house.running()
    await lease.park(60)
    await house.make_due(lease.id)

    said = await ask(house, "task/promote", TERMS)

    assert said == ["OK", 0, 1, "0"]
    found = await afterwards(house, a=lease.id)
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


async def test_a_scheduled_task_whose_time_has_come_may_be_claimed(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, delay=60)).id
    await house.make_due(task)

    said = await ask(house, "task/promote", TERMS)

    assert said == ["OK", 0, 1, "0"]
    found = await afterwards(house, a=task)
    assert found == LANES | {
        "task:a": READY,
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
        "events": [{"event": "task.ready", "task": "a", "detail": "1"}],
    }


async def test_nothing_is_promoted_early(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, delay=60)).id
    due = await house.client.zscore(house.keys.delayed(), task.ulid)
    before = await house.dump()

    said = await ask(house, "task/promote", TERMS)

    assert said == ["OK", 0, 0, f"{due:.0f}"]
    assert await house.dump() == before


async def test_a_scheduled_task_goes_on_waiting_for_its_parent(house: House) -> None:
    parent = await house.running()
    child = (await house.queue.enqueue("code", {}, delay=60, depends_on=[parent.id])).id
    await house.make_due(child)

    said = await ask(house, "task/promote", TERMS)

    found = await afterwards(house, a=parent.id, b=child)
    assert said == ["OK", 0, 0, "0"]
    assert (found["waits:b"], found["blocked"], found["dependents:a"]) == (["a"], ["b"], ["b"])
    assert "delayed" not in found
    await parent.complete()
    assert (await house.task(child)).state is State.READY


async def test_its_time_is_waited_for_after_its_parent_too(house: House) -> None:
    parent = await house.running()
    child = (await house.queue.enqueue("code", {}, delay=60, depends_on=[parent.id])).id
    await parent.complete()

    assert (await house.task(child)).state is State.PENDING
    assert (await afterwards(house, b=child))["waits:b"] == ["@time"]

    await house.make_due(child)
    assert await ask(house, "task/promote", TERMS) == ["OK", 0, 1, "0"]


async def test_it_says_when_the_next_is_due(house: House) -> None:
    soon, later = [(await house.queue.enqueue("code", {}, delay=d)).id for d in (60, 120)]
    await house.make_due(soon)

    said = await ask(house, "task/promote", TERMS)

    due = await house.client.zscore(house.keys.delayed(), later.ulid)
    assert said == ["OK", 0, 1, f"{due:.0f}"]


async def test_more_is_said_where_the_limit_was_reached(house: House) -> None:
    for _ in range(3):
        await house.make_due((await house.queue.enqueue("code", {}, delay=60)).id)

    steps = [await ask(house, "task/promote", TERMS | {"limit": 2}) for _ in range(2)]

    assert [step[:3] for step in steps] == [["OK", 1, 2], ["OK", 0, 1]]


async def test_a_claim_that_waits_is_answered(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, delay=60)).id
    waiter = await parked(house)
    await house.make_due(task)

    await ask(house, "task/promote", TERMS)

    assert (await mail(house, waiter))[0].startswith(f"tasks 1 {task.ulid} 1:")


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await house.make_due((await house.queue.enqueue("code", {}, delay=60)).id)
    await ask(house, "task/promote", TERMS)
    before = await house.dump()

    assert await ask(house, "task/promote", TERMS) == ["OK", 0, 0, "0"]
    assert await house.dump() == before


async def told(house: House) -> list[tuple[str, str]]:
    """Who became READY, as the stream of events tells it, and how many."""
    events = [event for _, event in await house.client.xrange(house.keys.events())]
    return [
        (event[b"task"].decode(), event[b"detail"].decode())
        for event in events
        if event[b"event"] == b"task.ready"
    ]


async def test_those_whose_time_was_the_last_they_waited_for_are_told_of_at_once(
    house: House,
) -> None:
    tasks = [(await house.queue.enqueue("code", {}, delay=60)).id for _ in range(2)]
    parent = (await house.queue.enqueue("code")).id
    child = (await house.queue.enqueue("code", {}, delay=60, depends_on=[parent])).id
    for task in [*tasks, child]:
        await house.make_due(task)

    await ask(house, "task/promote", TERMS)

    ids, number = (await told(house))[0]
    assert (sorted(ids.split()), number) == (sorted(task.ulid for task in tasks), "2")
    await ask(house, "task/promote", TERMS)
    assert len(await told(house)) == 1


async def test_a_retry_is_not_told_of_again(house: House) -> None:
    lease = await house.running()
    await lease.park(60)
    await house.make_due(lease.id)

    await ask(house, "task/promote", TERMS)

    assert await told(house) == []
