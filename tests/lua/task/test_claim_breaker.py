"""Failures in a row open the breaker of a type; one task is its probe, and its outcome decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.core.leases import Verdict, fail
from rqueue.core.timers import promote
from rqueue.task.attempt.breaker import BreakerState
from tests.harness import Harness, opened
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.keyspace import FAILING, all_keys, mailbox_lines, waiting_claim
from tests.servers import Server

RULE = "3 60000 300000"
AT_ONCE = "3 0 300000"


@pytest.fixture
async def harness(server: Server) -> AsyncIterator[Harness]:
    """A harness whose types have breakers."""
    async with opened(server, breakers={}) as found:
        yield found


async def running(harness: Harness, n: int = 1, type: str = "code") -> list[Lease]:
    """Running tasks of a type."""
    for _ in range(n):
        await harness.queue.enqueue(type)
    leases = await harness.queue.claim(worker="w1", types=[type], n=n)
    for lease in leases:
        await lease.start()
    return leases


async def failed(harness: Harness, *leases: Lease, rule: str = RULE) -> list[str]:
    """Fails attempts for good, with their rule for the breaker."""
    rows = [Verdict(one.id.ulid, one.token, "", 1, 0, "error", "", "code", rule) for one in leases]
    return await fail(harness.queue._internals.shard, rows)


async def state(harness: Harness) -> tuple[Any, ...]:
    """The state, the failures and the probe of the one breaker."""
    (breaker,) = await harness.queue.limits.breakers()
    return breaker.state, breaker.failures, breaker.probe


async def tried(harness: Harness) -> Lease:
    """The probe of a breaker whose time is over."""
    await failed(harness, *await running(harness, 3), rule=AT_ONCE)
    (probe,) = await running(harness, 1)
    return probe


async def test_a_single_failure_is_counted_and_does_not_open_it(harness: Harness) -> None:
    (lease,) = await running(harness)

    await failed(harness, lease)

    found = await all_keys(harness, a=lease.id)
    assert {key: found[key] for key in FAILING} == FAILING
    assert len(await running(harness)) == 1


async def test_failures_in_a_row_open_it(harness: Harness) -> None:
    leases = await running(harness, 3)

    await failed(harness, *leases)

    assert await state(harness) == (BreakerState.OPEN, 3, None)
    assert await running(harness) == []


async def test_a_success_between_them_resets_the_failures(harness: Harness) -> None:
    leases = await running(harness, 4)
    await failed(harness, *leases[:2])

    await leases[2].complete()
    await failed(harness, leases[3])

    assert await state(harness) == (BreakerState.CLOSED, 1, None)


async def test_a_success_of_another_type_resets_nothing(harness: Harness) -> None:
    leases = await running(harness, 2)
    (other,) = await running(harness, 1, "review")
    await failed(harness, *leases)

    await other.complete()

    assert await state(harness) == (BreakerState.CLOSED, 2, None)


async def test_failures_without_a_rule_are_not_counted(harness: Harness) -> None:
    await failed(harness, *await running(harness, 5), rule="")

    assert await harness.queue.limits.breakers() == []


async def test_tasks_that_began_before_do_not_extend_it(harness: Harness) -> None:
    leases = await running(harness, 5)
    await failed(harness, *leases[:3])
    (before,) = await harness.queue.limits.breakers()

    await failed(harness, leases[3])
    await leases[4].complete()

    (after,) = await harness.queue.limits.breakers()
    assert (after.state, after.failures) == (BreakerState.OPEN, 4)
    assert after.half_open_at == before.half_open_at


async def test_a_repeated_failure_is_counted_once(harness: Harness) -> None:
    (lease,) = await running(harness)
    await failed(harness, lease)
    before = await harness.dump()

    assert await failed(harness, lease) == [State.DEAD_LETTERED]

    assert await harness.dump() == before


async def test_a_failure_under_a_stale_token_is_not_counted(harness: Harness) -> None:
    (lease,) = await running(harness)
    await lease.release()

    assert await failed(harness, lease) == ["LOST"]

    assert await harness.queue.limits.breakers() == []


async def test_after_its_time_exactly_one_task_can_be_claimed(harness: Harness) -> None:
    await failed(harness, *await running(harness, 3), rule=AT_ONCE)
    await harness.queue.enqueue_many([{"type": "code", "priority": at} for at in (9, 1, 5)])
    await harness.queue.enqueue("code", required_capabilities=["gpu"])

    (probe,) = await harness.queue.claim(worker="w1", types=["code"], capabilities=["gpu"], n=9)

    assert probe.task.spec.priority == 1
    assert await state(harness) == (BreakerState.HALF_OPEN, 3, probe.id)
    assert await harness.queue.claim(worker="w2", types=["code"], capabilities=["gpu"]) == []


async def test_tasks_of_other_types_are_claimed_beside_the_probe(harness: Harness) -> None:
    await failed(harness, *await running(harness, 3), rule=AT_ONCE)
    await harness.queue.enqueue_many([{"type": "code"}, {"type": "code"}, {"type": "review"}])

    leases = await harness.queue.claim(worker="w1", n=9)

    assert sorted(lease.task.type for lease in leases) == ["code", "review"]


async def test_a_completed_probe_closes_the_breaker_and_answers_waiting_claims(
    harness: Harness,
) -> None:
    probe = await tried(harness)
    await harness.queue.enqueue("code")
    waiter = await waiting_claim(harness)

    await probe.complete()

    assert await harness.queue.limits.breakers() == []
    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")


async def test_a_failed_probe_opens_it_again_for_longer(harness: Harness) -> None:
    probe = await tried(harness)

    await failed(harness, probe)

    (breaker,) = await harness.queue.limits.breakers()
    assert breaker.state is BreakerState.OPEN
    assert breaker.opened_at is not None
    assert breaker.half_open_at is not None
    assert (breaker.half_open_at - breaker.opened_at).total_seconds() == 300


async def test_where_only_the_dead_count_a_failed_probe_opens_it_again_for_longer(
    server: Server,
) -> None:
    rule = {"failure_threshold": 1, "count": "dead_letter"}
    async with opened(server, breakers={"defaults": rule}) as harness:
        (first,) = await running(harness)
        await first.fail(permanent=True)
        await harness.client.hset(harness.keys.breaker("code"), "until", 1)
        await harness.queue.enqueue_many([{"type": "code"}] * 3)
        (probe,) = await harness.queue.claim(worker="w1", n=9)
        await probe.start()

        assert await probe.fail() is State.RETRYING

        (breaker,) = await harness.queue.limits.breakers()
        assert (breaker.state, breaker.failures) == (BreakerState.OPEN, 1)
        assert breaker.opened_at is not None
        assert breaker.half_open_at is not None
        assert (breaker.half_open_at - breaker.opened_at).total_seconds() == 300
        assert await harness.queue.claim(worker="w1", n=9) == []


async def test_where_only_the_dead_count_retried_tasks_do_not(server: Server) -> None:
    rule = {"failure_threshold": 1, "count": "dead_letter"}
    async with opened(server, breakers={"defaults": rule}) as harness:
        for lease in await running(harness, 3):
            assert await lease.fail() is State.RETRYING

        assert await harness.queue.limits.breakers() == []


WITHOUT: dict[str, Callable[[Harness, Lease], Awaitable[object]]] = {
    "released": lambda _, probe: probe.release(),
    "cancelled": lambda harness, probe: harness.queue.cancel(probe.id),
    "parked": lambda _, probe: probe.park(60),
    "uncounted": lambda harness, probe: failed(harness, probe, rule=""),
    "suspended": lambda harness, probe: spawn(
        harness, probe, [row("k", delay=60_000)], wait="done"
    ),
}


@pytest.mark.parametrize("way", WITHOUT)
async def test_a_waiting_claim_gets_the_probe_when_one_ends_without_an_outcome(
    harness: Harness, way: str
) -> None:
    probe = await tried(harness)
    await harness.queue.enqueue("code", required_capabilities=["gpu"])
    waiter = await waiting_claim(harness, capabilities=["gpu"])

    await WITHOUT[way](harness, probe)

    # A spawned task may be of a new lane, which is announced to waiting claims first.
    (*_, line) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")
    assert (await state(harness))[0] is BreakerState.HALF_OPEN


@pytest.mark.parametrize("way", WITHOUT)
async def test_a_probe_that_ends_without_an_outcome_leaves_the_probe_to_the_next(
    harness: Harness, way: str
) -> None:
    probe = await tried(harness)
    await WITHOUT[way](harness, probe)

    (following,) = await harness.queue.claim(worker="w2", types=["code"]) or await running(harness)

    assert await state(harness) == (BreakerState.HALF_OPEN, 3, following.id)


async def test_a_lost_probe_has_failed(harness: Harness) -> None:
    probe = await tried(harness)
    await harness.age(probe, 60)

    await harness.reaper.tick()

    (breaker,) = await harness.queue.limits.breakers()
    assert (breaker.state, breaker.probe) == (BreakerState.OPEN, None)


async def test_another_gate_of_the_type_does_not_change_its_time(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "rate": 1, "per_sec": 3600}]) as harness:
        await running(harness)
        await harness.queue.limits.open_breaker("code", 60)
        await harness.queue.enqueue("code")
        waiter = await waiting_claim(harness)
        until = int(await harness.client.hget(harness.keys.breaker("code"), "until"))
        assert await harness.client.zscore(harness.keys.wakes(), "code") == until

        await harness.client.zadd(harness.keys.wakes(), {"code": 1})
        done = await promote(harness.queue._internals.shard)

        assert done.next_ms == until
        assert await mailbox_lines(harness, waiter) == []


async def test_a_waiting_claim_is_answered_when_the_time_is_over(harness: Harness) -> None:
    await failed(harness, *await running(harness, 3))
    waiter = await waiting_claim(harness)
    await harness.queue.enqueue("code")
    assert (await harness.promoter.tick()).next_ms > 0
    assert await mailbox_lines(harness, waiter) == []

    await harness.client.hset(harness.keys.breaker("code"), "until", 1)
    await harness.client.zadd(harness.keys.wakes(), {"code": 1})
    await promote(harness.queue._internals.shard)

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")
    assert await harness.client.exists(harness.keys.wakes()) == 0
