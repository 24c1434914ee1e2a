"""open: nothing of a type is handed out for a while, and then one task tries it."""

from __future__ import annotations

from rqueue import State
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {
    "type": "code", "for_ms": 60_000, "events": 1000, "request": "r1", "memo_ms": 60_000,
}  # fmt: skip
OPENED = {"event": "breaker.opened", "breaker": "code", "detail": "60000"}


async def test_an_open_breaker_is_written_down(house: House) -> None:
    assert await ask(house, "breaker/open", TERMS) == ["OK"]

    assert await afterwards(house) == {
        "breaker:code": {"state": "open", "opened": "*", "until": "*"},
        "breakers": ["code"],
        "wakes": ["code"],
        "events": [OPENED],
    }


async def test_nothing_of_its_type_is_handed_out(house: House) -> None:
    await house.queue.enqueue("code")
    await house.queue.enqueue("review")

    await ask(house, "breaker/open", TERMS)

    (lease,) = await house.queue.claim(worker="w1", n=2)
    assert lease.task.type == "review"
    assert await house.queue.claim(worker="w1", types=["code"]) == []


async def test_who_waits_is_not_given_it(house: House) -> None:
    waiter = await parked(house)
    await ask(house, "breaker/open", TERMS)

    await house.queue.enqueue("code")

    assert await mail(house, waiter) == []


async def test_what_runs_goes_on(house: House) -> None:
    lease = await house.running()
    await ask(house, "breaker/open", TERMS)

    await lease.renew()
    await lease.complete("done")

    assert (await house.task(lease.id)).state is State.COMPLETED
    (breaker,) = await house.queue.breakers()
    assert breaker.state == "open"


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    await ask(house, "breaker/open", TERMS)
    before = await house.dump()

    assert await ask(house, "breaker/open", TERMS) == ["OK"]

    assert await house.dump() == before


async def test_another_call_begins_anew(house: House) -> None:
    await ask(house, "breaker/open", TERMS)

    await ask(house, "breaker/open", TERMS | {"for_ms": 0, "request": "r2"})

    (breaker,) = await house.queue.breakers()
    assert breaker.state == "half-open"
