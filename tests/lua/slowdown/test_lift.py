"""lift: the tasks of a type or key that is slowed down are handed out again, to who waits too."""

from __future__ import annotations

from rqueue import Lease
from rqueue.core.leases import Parked, park
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"what": "code", "tries": 100, "events": 1000}


async def slowed(harness: Harness, lease: Lease, slow_ms: int = 60_000) -> None:
    """Sets a task aside, and slows its type or its key down."""
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    assert await park(harness.queue._internals.shard, [row]) == ["OK"]


async def keyed(harness: Harness, key: str) -> Lease:
    """A task of a key that is under way."""
    await harness.queue.enqueue("code", limit_key=key)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def given(harness: Harness) -> int:
    """How many tasks a claim is given."""
    return len(await harness.queue.claim(worker="w2", types=["code"], n=50))


async def test_nothing_is_left_but_the_event_and_the_time_to_look(harness: Harness) -> None:
    lease = await harness.running()
    await slowed(harness, lease)
    before = await afterwards(harness, a=lease.id)

    assert await ask(harness, "slowdown/lift", TERMS) == ["OK", 0, 1]

    found = await afterwards(harness, a=lease.id)
    (*_, event) = found["events"]
    assert (event["event"], event["type"]) == ("type.lifted", "code")
    assert 0 < int(event["detail"]) <= 60_000
    gone = {"slow:code", "slowed", "events", "types"}
    assert {k: v for k, v in found.items() if k not in gone} == {
        k: v for k, v in before.items() if k not in gone
    }
    assert not {"slow:code", "slowed"} & set(found)


async def test_all_tasks_of_the_type_are_handed_out_again(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    await harness.queue.enqueue_many([{"type": "code"}] * 5)
    assert await given(harness) == 0

    await ask(harness, "slowdown/lift", TERMS)

    assert await given(harness) == 5


async def test_who_waits_is_answered_at_once(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    waiter = await parked(harness)
    await harness.queue.enqueue("code")
    assert await mail(harness, waiter) == []

    await ask(harness, "slowdown/lift", TERMS)

    (line,) = await mail(harness, waiter)
    assert line.startswith("tasks ")


async def test_a_key_is_lifted_by_itself(harness: Harness) -> None:
    one, two = await keyed(harness, "acme"), await keyed(harness, "beta")
    await slowed(harness, one)
    await slowed(harness, two)
    await harness.queue.enqueue("code", limit_key="acme")
    await harness.queue.enqueue("code", limit_key="beta")
    assert await given(harness) == 0

    assert await ask(harness, "slowdown/lift", {**TERMS, "what": "@acme"}) == ["OK", 0, 1]

    (lease,) = await harness.queue.claim(worker="w2", types=["code"], n=9)
    assert lease.task.spec.limit_key == "acme"
    assert await harness.client.smembers(harness.keys.slowed()) == {b"@beta"}
    (*_, event) = await harness.client.xrange(harness.keys.events())
    assert (event[1][b"event"], event[1][b"key"]) == (b"key.lifted", b"acme")


async def test_who_waits_for_a_key_is_answered_at_once(harness: Harness) -> None:
    await slowed(harness, await keyed(harness, "acme"))
    waiter = await parked(harness)
    await harness.queue.enqueue("code", limit_key="acme")
    assert await mail(harness, waiter) == []

    await ask(harness, "slowdown/lift", {**TERMS, "what": "@acme"})

    (line,) = await mail(harness, waiter)
    assert line.startswith("tasks ")


async def test_what_is_not_slowed_down_stays_so(harness: Harness) -> None:
    for what in ("code", "@acme"):
        assert await ask(harness, "slowdown/lift", {**TERMS, "what": what}) == ["OK", 0, 0]

    assert await afterwards(harness) == {}


async def test_the_breaker_of_the_type_stays_open(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    await harness.queue.limits.open_breaker("code", 60)
    await harness.queue.enqueue("code")

    await ask(harness, "slowdown/lift", TERMS)

    assert await given(harness) == 0
    assert await harness.client.zscore(harness.keys.wakes(), "code") is not None
