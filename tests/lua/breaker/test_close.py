"""close: the tasks of a type are handed out again, and who waits for them is answered."""

from __future__ import annotations

from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"type": "code", "tries": 100, "events": 1000}


async def test_what_is_closed_leaves_nothing_but_the_event(house: House) -> None:
    await house.queue.open_breaker("code")

    assert await ask(house, "breaker/close", TERMS) == ["OK", 0]

    found = await afterwards(house)
    assert [event["event"] for event in found.pop("events")] == ["breaker.opened", "breaker.closed"]
    assert found == {}


async def test_its_tasks_are_handed_out_again(house: House) -> None:
    await house.queue.enqueue("code")
    await house.queue.open_breaker("code")
    assert await house.queue.claim(worker="w1", types=["code"]) == []

    await ask(house, "breaker/close", TERMS)

    assert len(await house.queue.claim(worker="w1", types=["code"])) == 1


async def test_who_waits_is_answered_at_once(house: House) -> None:
    waiter = await parked(house)
    await house.queue.open_breaker("code")
    await house.queue.enqueue("code")
    assert await mail(house, waiter) == []

    await ask(house, "breaker/close", TERMS)

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")


async def test_failures_are_forgotten_and_nothing_is_told_where_it_was_closed(house: House) -> None:
    lease = await house.running()
    await lease.fail("error", "broken", permanent=True)

    assert await ask(house, "breaker/close", TERMS) == ["OK", 0]
    assert await ask(house, "breaker/close", TERMS) == ["OK", 0]

    found = await afterwards(house, a=lease.id)
    assert "breaker:code" not in found
    assert [event["event"] for event in found["events"]] == ["task.dead_lettered"]
