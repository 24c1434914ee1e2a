"""Failures in a row open the breaker of a type; one task tries it, and its lease decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.model.breaker import BreakerState
from rqueue.store.leases import Verdict, fail
from rqueue.store.passage import promote
from tests.house import House, opened
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.afterwards import FAILING, afterwards, mail, parked
from tests.servers import Server

RULE = "3 60000 300000"
AT_ONCE = "3 0 300000"


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """A house whose types have breakers."""
    async with opened(server, breakers={}) as found:
        yield found


async def running(house: House, n: int = 1, type: str = "code") -> list[Lease]:
    """Tasks of a type that are under way."""
    for _ in range(n):
        await house.queue.enqueue(type)
    leases = await house.queue.claim(worker="w1", types=[type], n=n)
    for lease in leases:
        await lease.start()
    return leases


async def failed(house: House, *leases: Lease, rule: str = RULE) -> list[str]:
    """Ends attempts as failed for good, with what that says to the breaker."""
    rows = [Verdict(one.id.ulid, one.token, "", 1, 0, "error", "", "code", rule) for one in leases]
    return await fail(house.queue.shard, rows)


async def state(house: House) -> tuple[Any, ...]:
    """The state, the failures and the probe of the one breaker."""
    (breaker,) = await house.queue.breakers()
    return breaker.state, breaker.failures, breaker.probe


async def tried(house: House) -> Lease:
    """The one task that tries a breaker whose time has come."""
    await failed(house, *await running(house, 3), rule=AT_ONCE)
    (probe,) = await running(house, 1)
    return probe


async def test_a_failure_is_counted_and_stops_nothing(house: House) -> None:
    (lease,) = await running(house)

    await failed(house, lease)

    found = await afterwards(house, a=lease.id)
    assert {key: found[key] for key in FAILING} == FAILING
    assert len(await running(house)) == 1


async def test_so_many_in_a_row_open_it(house: House) -> None:
    leases = await running(house, 3)

    await failed(house, *leases)

    assert await state(house) == (BreakerState.OPEN, 3, None)
    assert await running(house) == []


async def test_a_success_between_them_forgets_the_failures(house: House) -> None:
    leases = await running(house, 4)
    await failed(house, *leases[:2])

    await leases[2].complete()
    await failed(house, leases[3])

    assert await state(house) == (BreakerState.CLOSED, 1, None)


async def test_a_success_of_another_type_forgets_nothing(house: House) -> None:
    leases = await running(house, 2)
    (other,) = await running(house, 1, "review")
    await failed(house, *leases)

    await other.complete()

    assert await state(house) == (BreakerState.CLOSED, 2, None)


async def test_what_does_not_count_is_not_counted(house: House) -> None:
    await failed(house, *await running(house, 5), rule="")

    assert await house.queue.breakers() == []


async def test_those_that_began_before_do_not_open_it_for_longer(house: House) -> None:
    leases = await running(house, 5)
    await failed(house, *leases[:3])
    (before,) = await house.queue.breakers()

    await failed(house, leases[3])
    await leases[4].complete()

    (after,) = await house.queue.breakers()
    assert (after.state, after.failures) == (BreakerState.OPEN, 4)
    assert after.half_open_at == before.half_open_at


async def test_sent_again_a_failure_is_counted_once(house: House) -> None:
    (lease,) = await running(house)
    await failed(house, lease)
    before = await house.dump()

    assert await failed(house, lease) == [State.DEAD_LETTERED]

    assert await house.dump() == before


async def test_a_stale_token_says_nothing_to_a_breaker(house: House) -> None:
    (lease,) = await running(house)
    await lease.release()

    assert await failed(house, lease) == ["LOST"]

    assert await house.queue.breakers() == []


async def test_when_its_time_has_come_one_task_alone_is_handed_out(house: House) -> None:
    await failed(house, *await running(house, 3), rule=AT_ONCE)
    await house.queue.enqueue_many([{"type": "code", "priority": at} for at in (9, 1, 5)])
    await house.queue.enqueue("code", required_capabilities=["gpu"])

    (probe,) = await house.queue.claim(worker="w1", types=["code"], capabilities=["gpu"], n=9)

    assert probe.task.spec.priority == 1
    assert await state(house) == (BreakerState.HALF_OPEN, 3, probe.id)
    assert await house.queue.claim(worker="w2", types=["code"], capabilities=["gpu"]) == []


async def test_others_are_handed_out_beside_the_one(house: House) -> None:
    await failed(house, *await running(house, 3), rule=AT_ONCE)
    await house.queue.enqueue_many([{"type": "code"}, {"type": "code"}, {"type": "review"}])

    leases = await house.queue.claim(worker="w1", n=9)

    assert sorted(lease.task.type for lease in leases) == ["code", "review"]


async def test_its_success_closes_the_breaker_and_answers_who_waits(house: House) -> None:
    probe = await tried(house)
    await house.queue.enqueue("code")
    waiter = await parked(house)

    await probe.complete()

    assert await house.queue.breakers() == []
    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")


async def test_its_failure_opens_it_again_for_longer(house: House) -> None:
    probe = await tried(house)

    await failed(house, probe)

    (breaker,) = await house.queue.breakers()
    assert breaker.state is BreakerState.OPEN
    assert breaker.opened_at is not None
    assert breaker.half_open_at is not None
    assert (breaker.half_open_at - breaker.opened_at).total_seconds() == 300


async def test_where_only_the_dead_count_a_failed_probe_opens_it_again_for_longer(
    server: Server,
) -> None:
    rule = {"failure_threshold": 1, "count": "dead_letter"}
    async with opened(server, breakers={"defaults": rule}) as house:
        (first,) = await running(house)
        await first.fail(permanent=True)
        await house.client.hset(house.keys.breaker("code"), "until", 1)
        await house.queue.enqueue_many([{"type": "code"}] * 3)
        (probe,) = await house.queue.claim(worker="w1", n=9)
        await probe.start()

        assert await probe.fail() is State.RETRYING

        (breaker,) = await house.queue.breakers()
        assert (breaker.state, breaker.failures) == (BreakerState.OPEN, 1)
        assert breaker.opened_at is not None
        assert breaker.half_open_at is not None
        assert (breaker.half_open_at - breaker.opened_at).total_seconds() == 300
        assert await house.queue.claim(worker="w1", n=9) == []


async def test_where_only_the_dead_count_those_that_are_tried_again_do_not(server: Server) -> None:
    rule = {"failure_threshold": 1, "count": "dead_letter"}
    async with opened(server, breakers={"defaults": rule}) as house:
        for lease in await running(house, 3):
            assert await lease.fail() is State.RETRYING

        assert await house.queue.breakers() == []


WITHOUT: dict[str, Callable[[House, Lease], Awaitable[object]]] = {
    "released": lambda _, probe: probe.release(),
    "cancelled": lambda house, probe: house.queue.cancel(probe.id),
    "parked": lambda _, probe: probe.park(60),
    "uncounted": lambda house, probe: failed(house, probe, rule=""),
    "suspended": lambda house, probe: spawn(house, probe, [row("k", delay=60_000)], wait="done"),
}


@pytest.mark.parametrize("way", WITHOUT)
async def test_who_waits_tries_when_one_ends_without_a_verdict(house: House, way: str) -> None:
    probe = await tried(house)
    await house.queue.enqueue("code", required_capabilities=["gpu"])
    waiter = await parked(house, capabilities=["gpu"])

    await WITHOUT[way](house, probe)

    # What is spawned may be of a new lane, and whoever waits is told of that first.
    (*_, line) = await mail(house, waiter)
    assert line.startswith("tasks ")
    assert (await state(house))[0] is BreakerState.HALF_OPEN


@pytest.mark.parametrize("way", WITHOUT)
async def test_one_that_ends_without_a_verdict_leaves_the_try_to_the_next(
    house: House, way: str
) -> None:
    probe = await tried(house)
    await WITHOUT[way](house, probe)

    (following,) = await house.queue.claim(worker="w2", types=["code"]) or await running(house)

    assert await state(house) == (BreakerState.HALF_OPEN, 3, following.id)


async def test_a_lost_probe_has_failed(house: House) -> None:
    probe = await tried(house)
    await house.age(probe, 60)

    await house.reaper.tick()

    (breaker,) = await house.queue.breakers()
    assert (breaker.state, breaker.probe) == (BreakerState.OPEN, None)


async def test_another_gate_of_the_type_takes_no_time_from_it(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "rate": 1, "per_sec": 3600}]) as house:
        await running(house)
        await house.queue.open_breaker("code", 60)
        await house.queue.enqueue("code")
        waiter = await parked(house)
        until = int(await house.client.hget(house.keys.breaker("code"), "until"))
        assert await house.client.zscore(house.keys.wakes(), "code") == until

        await house.client.zadd(house.keys.wakes(), {"code": 1})
        done = await promote(house.queue.shard)

        assert done.next_ms == until
        assert await mail(house, waiter) == []


async def test_who_waits_for_the_time_is_answered_when_it_comes(house: House) -> None:
    await failed(house, *await running(house, 3))
    waiter = await parked(house)
    await house.queue.enqueue("code")
    assert (await house.promoter.tick()).next_ms > 0
    assert await mail(house, waiter) == []

    await house.client.hset(house.keys.breaker("code"), "until", 1)
    await house.client.zadd(house.keys.wakes(), {"code": 1})
    await promote(house.queue.shard)

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")
    assert await house.client.exists(house.keys.wakes()) == 0
