"""lift: the tasks of a type or key that is slowed down are handed out again, to who waits too."""

from __future__ import annotations

from rqueue import Lease
from rqueue.store.leases import Parking, park
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"what": "code", "tries": 100, "events": 1000}


async def slowed(house: House, lease: Lease, slow_ms: int = 60_000) -> None:
    """Sets a task aside, and slows its type or its key down."""
    row = Parking(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    assert await park(house.queue.shard, [row]) == ["OK"]


async def keyed(house: House, key: str) -> Lease:
    """A task of a key that is under way."""
    await house.queue.enqueue("code", limit_key=key)
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def given(house: House) -> int:
    """How many tasks a claim is given."""
    return len(await house.queue.claim(worker="w2", types=["code"], n=50))


async def test_nothing_is_left_but_the_event_and_the_time_to_look(house: House) -> None:
    lease = await house.running()
    await slowed(house, lease)
    before = await afterwards(house, a=lease.id)

    assert await ask(house, "slowdown/lift", TERMS) == ["OK", 0, 1]

    found = await afterwards(house, a=lease.id)
    (*_, event) = found["events"]
    assert (event["event"], event["type"]) == ("type.lifted", "code")
    assert 0 < int(event["detail"]) <= 60_000
    gone = {"slow:code", "slowed", "events", "types"}
    assert {k: v for k, v in found.items() if k not in gone} == {
        k: v for k, v in before.items() if k not in gone
    }
    assert not {"slow:code", "slowed"} & set(found)


async def test_all_tasks_of_the_type_are_handed_out_again(house: House) -> None:
    await slowed(house, await house.running())
    await house.queue.enqueue_many([{"type": "code"}] * 5)
    assert await given(house) == 0

    await ask(house, "slowdown/lift", TERMS)

    assert await given(house) == 5


async def test_who_waits_is_answered_at_once(house: House) -> None:
    await slowed(house, await house.running())
    waiter = await parked(house)
    await house.queue.enqueue("code")
    assert await mail(house, waiter) == []

    await ask(house, "slowdown/lift", TERMS)

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")


async def test_a_key_is_lifted_by_itself(house: House) -> None:
    one, two = await keyed(house, "acme"), await keyed(house, "beta")
    await slowed(house, one)
    await slowed(house, two)
    await house.queue.enqueue("code", limit_key="acme")
    await house.queue.enqueue("code", limit_key="beta")
    assert await given(house) == 0

    assert await ask(house, "slowdown/lift", {**TERMS, "what": "@acme"}) == ["OK", 0, 1]

    (lease,) = await house.queue.claim(worker="w2", types=["code"], n=9)
    assert lease.task.spec.limit_key == "acme"
    assert await house.client.smembers(house.keys.slowed()) == {b"@beta"}
    (*_, event) = await house.client.xrange(house.keys.events())
    assert (event[1][b"event"], event[1][b"key"]) == (b"key.lifted", b"acme")


async def test_who_waits_for_a_key_is_answered_at_once(house: House) -> None:
    await slowed(house, await keyed(house, "acme"))
    waiter = await parked(house)
    await house.queue.enqueue("code", limit_key="acme")
    assert await mail(house, waiter) == []

    await ask(house, "slowdown/lift", {**TERMS, "what": "@acme"})

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")


async def test_what_is_not_slowed_down_stays_so(house: House) -> None:
    for what in ("code", "@acme"):
        assert await ask(house, "slowdown/lift", {**TERMS, "what": what}) == ["OK", 0, 0]

    assert await afterwards(house) == {}


async def test_the_breaker_of_the_type_stays_open(house: House) -> None:
    await slowed(house, await house.running())
    await house.queue.open_breaker("code", 60)
    await house.queue.enqueue("code")

    await ask(house, "slowdown/lift", TERMS)

    assert await given(house) == 0
    assert await house.client.zscore(house.keys.wakes(), "code") is not None
