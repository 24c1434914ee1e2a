"""cancel: a task ends wherever it is, and who holds it is fenced."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import LeaseLost
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, expiring, parked

HOW = '{"archive":"0","ttl":60000,"events":1000}'
TERMS: dict[str, Argument] = {
    "reason": "no need", "dependents": "cascade", "limit": 1000, "how": HOW, "request": "r1",
    **FREED,
}  # fmt: skip
ENDED = {
    "def0": "*", "finished": "*", "lane": "1", "score": "*", "settled": "cancel r1",
    "state": "CANCELLED", "why": "no need",
}  # fmt: skip
HELD = {"entry": "*", "token": "1:*"}
EVENTS = [{"event": "task.cancelled", "task": "a", "detail": "no need"}]
STATS = {"1:CANCELLED": 1, "submitted": 1}


async def cancelled(house: House, task: str) -> list[object]:
    return await ask(house, "task/cancel", TERMS, [(task[-26:],)])


async def brought_to(house: House, state: str) -> Lease:
    """A claimed task, and then in a later state."""
    lease = await house.claimed()
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


async def test_a_ready_task_leaves_its_lane(house: House) -> None:
    task = (await house.queue.enqueue("code")).id

    said = await cancelled(house, task)

    assert said == ["OK", 0, 1, "OK"]
    assert await afterwards(house, a=task) == LANES | {
        "task:a": ENDED | {"entry": "*"},
        "ready": ([], {}),
        "events": EVENTS,
        "stats": STATS,
    }
    assert await expiring(house, a=task) == {"task:a"}


async def test_a_scheduled_task_leaves_what_it_waits_in(house: House) -> None:
    task = (await house.queue.enqueue("code", {}, delay=60)).id

    said = await cancelled(house, task)

    assert said == ["OK", 0, 1, "OK"]
    assert await afterwards(house, a=task) == LANES | {
        "task:a": ENDED | {"created": "*", "due": "*"},
        "events": EVENTS,
        "stats": STATS,
    }


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_a_held_task_is_taken_from_its_holder(house: House, state: str) -> None:
    lease = await brought_to(house, state)

    said = await cancelled(house, lease.id)

    holder = "* 0 w1" if state == "CLAIMED" else "* * w1"
    owes = {} if state == "CLAIMED" else {"owed": f"{lease.token} 0 w1"}
    assert said == ["OK", 0, 1, "OK"]
    assert await afterwards(house, a=lease.id) == LANES | W1 | {
        "task:a": ENDED | HELD | {"holder": holder} | owes,
        "mail:@w1": [f"fenced a {lease.token}"],
        "ready": ([], {}),
        "events": EVENTS,
        "stats": STATS,
    }


async def test_a_retry_is_not_tried(house: House) -> None:
    lease = await brought_to(house, "RETRYING")

    said = await cancelled(house, lease.id)

    found = await afterwards(house, a=lease.id)
    assert said == ["OK", 0, 1, "OK"]
    assert set(found) == {*LANES, *W1, "task:a", "ready", "events", "stats"}
    assert (found["task:a"]["state"], found["task:a"]["why"]) == ("CANCELLED", "no need")
    assert (found["ready"], found["stats"]) == (([], {}), STATS)


async def test_the_holder_of_a_cancelled_task_is_fenced(house: House) -> None:
    lease = await brought_to(house, "RUNNING")
    await cancelled(house, lease.id)
    before = await house.dump()

    for call in (lease.renew, lease.complete, lease.fail, lease.release, lease.validate):
        with pytest.raises(LeaseLost):
            await call()
    with pytest.raises(LeaseLost):
        await lease.park(1)

    after = await house.dump()
    workers = house.keys.workers()
    assert after.pop(workers) != before.pop(workers)  # a renewal is a sign of life
    assert after == before


async def test_it_is_not_claimed_any_more(house: House) -> None:
    task = (await house.queue.enqueue("code")).id
    await cancelled(house, task)

    assert await house.queue.claim(worker="w1", types=["code"]) == []


async def test_a_handed_over_task_is_not_recalled(house: House) -> None:
    await parked(house)
    task = (await house.queue.enqueue("code")).id

    await cancelled(house, task)

    assert "handoffs" not in await afterwards(house)


@pytest.mark.parametrize("state", ["COMPLETED", "DEAD_LETTERED"])
async def test_what_has_ended_stays_as_it_is(house: House, state: str) -> None:
    lease = await brought_to(house, state)
    before = await house.dump()

    assert await cancelled(house, lease.id) == ["OK", 0, 0, f"STATE:{state}"]
    assert await house.dump() == before


async def test_an_unknown_task_is_gone(house: House) -> None:
    assert await cancelled(house, "01HZZZZZZZZZZZZZZZZZZZZZZZ") == ["OK", 0, 0, "GONE"]
    assert await house.dump() == {}


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    lease = await brought_to(house, "RUNNING")
    first = await cancelled(house, lease.id)
    before = await house.dump()

    second = await cancelled(house, lease.id)

    assert (first[3], second[3]) == ("OK", "OK")
    assert await house.dump() == before


async def test_another_call_finds_it_cancelled(house: House) -> None:
    task = (await house.queue.enqueue("code")).id
    assert await house.queue.cancel(task) is True

    assert await house.queue.cancel(task) is False
    assert await cancelled(house, task) == ["OK", 0, 0, "STATE:CANCELLED"]


async def test_a_key_is_given_up_and_those_who_watch_are_told(house: House) -> None:
    options: dict[str, Any] = {"idempotency_key": "k", "external_id": "mine", "tags": ["t"]}
    task = (await house.queue.enqueue("code", {}, **options)).id
    await ask(house, "task/watch", {"box": "b1", "keep_ms": 9000}, [(task.ulid,)])

    await cancelled(house, task)

    found = await afterwards(house, a=task)
    assert set(found) == {*LANES, "task:a", "ext:*", "mail:b1", "ready", "events", "stats"}
    assert (found["mail:b1"], found["ext:*"]) == (["ended a"], "a")
    assert await expiring(house, a=task) == {"task:a", "ext:*", "mail:b1"}


async def test_with_an_archive_it_waits_for_its_row(archived_house: House) -> None:
    task = (await archived_house.queue.enqueue("code", {}, tags=["t"])).id
    args = TERMS | {"how": HOW.replace('"0"', '"1"')}

    await ask(archived_house, "task/cancel", args, [(task.ulid,)])

    found = await afterwards(archived_house, a=task)
    assert (found["outbox"], found["tag:t"]) == ([{"a": "1 CANCELLED"}], ["a"])
    assert found["stats"] == STATS | {"outbox": 1}
    assert await expiring(archived_house, a=task) == set()


async def test_each_of_many_gets_its_word(house: House) -> None:
    lease = await brought_to(house, "COMPLETED")
    ready = (await house.queue.enqueue("code")).id
    rows = [(ready.ulid,), (lease.id.ulid,), ("01HZZZZZZZZZZZZZZZZZZZZZZZ",)]

    said = await ask(house, "task/cancel", TERMS, rows)

    assert said == ["OK", 0, 1, "OK", "STATE:COMPLETED", "GONE"]
