"""open: nothing of a type can be claimed for a while, then one task as a probe."""

from __future__ import annotations

from rqueue import State
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim

TERMS: dict[str, Argument] = {
    "type": "code", "for_ms": 60_000, "events": 1000, "request": "r1", "memo_ms": 60_000,
}  # fmt: skip
OPENED = {"event": "breaker.opened", "breaker": "code", "detail": "60000"}


async def test_an_open_breaker_is_stored(harness: Harness) -> None:
    assert await run_move(harness, "breaker/open", TERMS) == ["OK"]

    assert await all_keys(harness) == {
        "breaker:code": {"state": "open", "opened": "*", "until": "*"},
        "breakers": ["code"],
        "wakes": ["code"],
        "events": [OPENED],
    }


async def test_no_task_of_the_type_can_be_claimed(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.enqueue("review")

    await run_move(harness, "breaker/open", TERMS)

    (lease,) = await harness.queue.claim(worker="w1", n=2)
    assert lease.task.type == "review"
    assert await harness.queue.claim(worker="w1", types=["code"]) == []


async def test_a_waiting_claim_is_not_answered_with_it(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await run_move(harness, "breaker/open", TERMS)

    await harness.queue.enqueue("code")

    assert await mailbox_lines(harness, waiter) == []


async def test_running_tasks_continue(harness: Harness) -> None:
    lease = await harness.running()
    await run_move(harness, "breaker/open", TERMS)

    await lease.renew()
    await lease.complete("done")

    assert (await harness.task(lease.id)).state is State.COMPLETED
    (breaker,) = await harness.queue.limits.breakers()
    assert breaker.state == "open"


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    await run_move(harness, "breaker/open", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "breaker/open", TERMS) == ["OK"]

    assert await harness.dump() == before


async def test_another_call_starts_the_time_again(harness: Harness) -> None:
    await run_move(harness, "breaker/open", TERMS)

    await run_move(harness, "breaker/open", TERMS | {"for_ms": 0, "request": "r2"})

    (breaker,) = await harness.queue.limits.breakers()
    assert breaker.state == "half-open"
