"""lift: the tasks of a slowed-down type or tenant can be claimed again, by waiting claims too."""

from __future__ import annotations

from rqueue import Lease
from rqueue.core.leases import Parked, park
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim

TERMS: dict[str, Argument] = {"what": "code", "tries": 100, "events": 1000}


async def slowed(harness: Harness, lease: Lease, slow_ms: int = 60_000) -> None:
    """Parks a task, and slows its type or its tenant down."""
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    assert await park(harness.queue._internals.shard, [row]) == ["OK"]


async def keyed(harness: Harness, key: str) -> Lease:
    """A running task of a tenant."""
    await harness.queue.enqueue("code", limit_key=key)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def claimed_number(harness: Harness) -> int:
    """How many tasks a claim gets."""
    return len(await harness.queue.claim(worker="w2", types=["code"], n=50))


async def test_only_the_event_and_the_wake_are_left(harness: Harness) -> None:
    lease = await harness.running()
    await slowed(harness, lease)
    before = await all_keys(harness, a=lease.id)

    assert await run_move(harness, "slowdown/lift", TERMS) == ["OK", 0, 1]

    found = await all_keys(harness, a=lease.id)
    (*_, event) = found["events"]
    assert (event["event"], event["type"]) == ("type.lifted", "code")
    assert 0 < int(event["detail"]) <= 60_000
    gone = {"slow:code", "slowed", "events", "types"}
    assert {k: v for k, v in found.items() if k not in gone} == {
        k: v for k, v in before.items() if k not in gone
    }
    assert not {"slow:code", "slowed"} & set(found)


async def test_all_tasks_of_the_type_can_be_claimed_again(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    await harness.queue.enqueue_many([{"type": "code"}] * 5)
    assert await claimed_number(harness) == 0

    await run_move(harness, "slowdown/lift", TERMS)

    assert await claimed_number(harness) == 5


async def test_a_waiting_claim_is_answered_at_once(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    waiter = await waiting_claim(harness)
    await harness.queue.enqueue("code")
    assert await mailbox_lines(harness, waiter) == []

    await run_move(harness, "slowdown/lift", TERMS)

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")


async def test_a_tenant_is_lifted_separately(harness: Harness) -> None:
    one, two = await keyed(harness, "acme"), await keyed(harness, "beta")
    await slowed(harness, one)
    await slowed(harness, two)
    await harness.queue.enqueue("code", limit_key="acme")
    await harness.queue.enqueue("code", limit_key="beta")
    assert await claimed_number(harness) == 0

    assert await run_move(harness, "slowdown/lift", {**TERMS, "what": "@acme"}) == ["OK", 0, 1]

    (lease,) = await harness.queue.claim(worker="w2", types=["code"], n=9)
    assert lease.task.spec.limit_key == "acme"
    assert await harness.client.smembers(harness.keys.slowed()) == {b"@beta"}
    (*_, event) = await harness.client.xrange(harness.keys.events())
    assert (event[1][b"event"], event[1][b"key"]) == (b"key.lifted", b"acme")


async def test_a_claim_that_waits_for_a_tenant_is_answered_at_once(harness: Harness) -> None:
    await slowed(harness, await keyed(harness, "acme"))
    waiter = await waiting_claim(harness)
    await harness.queue.enqueue("code", limit_key="acme")
    assert await mailbox_lines(harness, waiter) == []

    await run_move(harness, "slowdown/lift", {**TERMS, "what": "@acme"})

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")


async def test_lifting_without_a_slow_down_changes_nothing(harness: Harness) -> None:
    for what in ("code", "@acme"):
        assert await run_move(harness, "slowdown/lift", {**TERMS, "what": what}) == ["OK", 0, 0]

    assert await all_keys(harness) == {}


async def test_the_breaker_of_the_type_stays_open(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    await harness.queue.limits.open_breaker("code", 60)
    await harness.queue.enqueue("code")

    await run_move(harness, "slowdown/lift", TERMS)

    assert await claimed_number(harness) == 0
    assert await harness.client.zscore(harness.keys.wakes(), "code") is not None
