"""close: the tasks of a type are handed out again, and who waits for them is answered."""

from __future__ import annotations

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"type": "code", "tries": 100, "events": 1000}


async def test_what_is_closed_leaves_nothing_but_the_event(harness: Harness) -> None:
    await harness.queue.limits.open_breaker("code")

    assert await ask(harness, "breaker/close", TERMS) == ["OK", 0]

    found = await afterwards(harness)
    assert [event["event"] for event in found.pop("events")] == ["breaker.opened", "breaker.closed"]
    assert found == {}


async def test_its_tasks_are_handed_out_again(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.limits.open_breaker("code")
    assert await harness.queue.claim(worker="w1", types=["code"]) == []

    await ask(harness, "breaker/close", TERMS)

    assert len(await harness.queue.claim(worker="w1", types=["code"])) == 1


async def test_who_waits_is_answered_at_once(harness: Harness) -> None:
    waiter = await parked(harness)
    await harness.queue.limits.open_breaker("code")
    await harness.queue.enqueue("code")
    assert await mail(harness, waiter) == []

    await ask(harness, "breaker/close", TERMS)

    (line,) = await mail(harness, waiter)
    assert line.startswith("tasks ")


async def test_failures_are_forgotten_and_nothing_is_told_where_it_was_closed(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await lease.fail("error", "broken", permanent=True)

    assert await ask(harness, "breaker/close", TERMS) == ["OK", 0]
    assert await ask(harness, "breaker/close", TERMS) == ["OK", 0]

    found = await afterwards(harness, a=lease.id)
    assert "breaker:code" not in found
    assert [event["event"] for event in found["events"]] == ["task.dead_lettered"]
