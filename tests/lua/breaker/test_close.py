"""close: the tasks of a type can be claimed again, and waiting claims are answered."""

from __future__ import annotations

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim

TERMS: dict[str, Argument] = {"type": "code", "tries": 100, "events": 1000}


async def test_a_closed_breaker_leaves_only_the_event(harness: Harness) -> None:
    await harness.queue.limits.open_breaker("code")

    assert await run_move(harness, "breaker/close", TERMS) == ["OK", 0]

    found = await all_keys(harness)
    assert [event["event"] for event in found.pop("events")] == ["breaker.opened", "breaker.closed"]
    assert found == {}


async def test_tasks_of_the_type_can_be_claimed_again(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.limits.open_breaker("code")
    assert await harness.queue.claim(worker="w1", types=["code"]) == []

    await run_move(harness, "breaker/close", TERMS)

    assert len(await harness.queue.claim(worker="w1", types=["code"])) == 1


async def test_a_waiting_claim_is_answered_at_once(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await harness.queue.limits.open_breaker("code")
    await harness.queue.enqueue("code")
    assert await mailbox_lines(harness, waiter) == []

    await run_move(harness, "breaker/close", TERMS)

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")


async def test_a_closed_breaker_loses_its_failures_without_an_event(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await lease.fail("error", "broken", permanent=True)

    assert await run_move(harness, "breaker/close", TERMS) == ["OK", 0]
    assert await run_move(harness, "breaker/close", TERMS) == ["OK", 0]

    found = await all_keys(harness, a=lease.id)
    assert "breaker:code" not in found
    assert [event["event"] for event in found["events"]] == ["task.dead_lettered"]
