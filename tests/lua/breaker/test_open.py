"""open: nothing of a type is handed out for a while, and then one task tries it."""

from __future__ import annotations

from rqueue import State
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {
    "type": "code", "for_ms": 60_000, "events": 1000, "request": "r1", "memo_ms": 60_000,
}  # fmt: skip
OPENED = {"event": "breaker.opened", "breaker": "code", "detail": "60000"}


async def test_an_open_breaker_is_written_down(harness: Harness) -> None:
    assert await ask(harness, "breaker/open", TERMS) == ["OK"]

    assert await afterwards(harness) == {
        "breaker:code": {"state": "open", "opened": "*", "until": "*"},
        "breakers": ["code"],
        "wakes": ["code"],
        "events": [OPENED],
    }


async def test_nothing_of_its_type_is_handed_out(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.enqueue("review")

    await ask(harness, "breaker/open", TERMS)

    (lease,) = await harness.queue.claim(worker="w1", n=2)
    assert lease.task.type == "review"
    assert await harness.queue.claim(worker="w1", types=["code"]) == []


async def test_who_waits_is_not_given_it(harness: Harness) -> None:
    waiter = await parked(harness)
    await ask(harness, "breaker/open", TERMS)

    await harness.queue.enqueue("code")

    assert await mail(harness, waiter) == []


async def test_what_runs_goes_on(harness: Harness) -> None:
    lease = await harness.running()
    await ask(harness, "breaker/open", TERMS)

    await lease.renew()
    await lease.complete("done")

    assert (await harness.task(lease.id)).state is State.COMPLETED
    (breaker,) = await harness.queue.limits.breakers()
    assert breaker.state == "open"


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    await ask(harness, "breaker/open", TERMS)
    before = await harness.dump()

    assert await ask(harness, "breaker/open", TERMS) == ["OK"]

    assert await harness.dump() == before


async def test_another_call_begins_anew(harness: Harness) -> None:
    await ask(harness, "breaker/open", TERMS)

    await ask(harness, "breaker/open", TERMS | {"for_ms": 0, "request": "r2"})

    (breaker,) = await harness.queue.limits.breakers()
    assert breaker.state == "half-open"
