"""A full server refuses new work, and lets what it holds drain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rqueue import Lease, State
from rqueue.core.outbox import Entry, archived
from rqueue.errors import Overloaded
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim


@pytest.fixture
async def full(archived_harness: Harness) -> AsyncIterator[Harness]:
    """A harness whose server becomes full when `fill` is called, and has memory again after it."""
    before = {
        name: (await archived_harness.client.config_get(name))[name]
        for name in ("maxmemory", "maxmemory-policy")
    }
    try:
        yield archived_harness
    finally:
        for name, value in before.items():
            await archived_harness.client.config_set(name, value)


async def fill(harness: Harness) -> None:
    """From now on the server has no free memory."""
    await harness.client.config_set("maxmemory-policy", "noeviction")
    await harness.client.config_set("maxmemory", "1")


async def leased(harness: Harness, count: int) -> list[Lease]:
    await harness.queue.enqueue_many([harness.queue.call("code")] * count)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=count)
    for lease in leases:
        await lease.start()
    return leases


async def test_a_full_server_refuses_new_work_and_keeps_no_part_of_it(full: Harness) -> None:
    await full.queue.enqueue("code")
    before = await full.dump()
    await fill(full)

    with pytest.raises(Overloaded):
        await full.queue.enqueue("code")
    with pytest.raises(Overloaded):
        await full.queue.enqueue_many([full.queue.call("review", {}, idempotency_key="k")] * 3)

    assert await full.dump() == before


async def test_a_full_server_lets_tasks_be_claimed_and_settled(full: Harness) -> None:
    await full.queue.enqueue_many([full.queue.call("code")] * 6)
    await fill(full)

    done, dead, again, back, aside, lost = await full.queue.claim(worker="w1", n=6)
    for lease in (done, dead, again, back, aside, lost):
        await lease.start()
        await lease.renew()
    await done.validate()
    await done.complete("done")
    assert await dead.fail(permanent=True) is State.DEAD_LETTERED
    assert await again.fail() is State.RETRYING
    await back.release()
    await aside.park(60)
    assert await full.queue.cancel(lost.id, "no need") is True

    counts = await full.queue.counts()
    assert {state for state, number in counts.by_state.items() if number} == {
        "COMPLETED", "DEAD_LETTERED", "RETRYING", "READY", "CANCELLED",
    }  # fmt: skip


async def test_a_full_server_lets_the_archiver_collect_ended_tasks(full: Harness) -> None:
    (lease,) = await leased(full, 1)
    await fill(full)
    await lease.complete("done")
    ((entry, _),) = await full.client.xrange(full.keys.outbox())

    assert await archived(full.queue._internals.shard, [Entry(entry.decode(), [])]) == 1

    assert (await all_keys(full))["outbox"] == []


async def test_a_full_server_lets_the_services_work(full: Harness) -> None:
    silent, parked_one = await leased(full, 2)
    await parked_one.park(60)
    await full.make_due(parked_one.id)
    await full.age(silent, 60)
    await fill(full)

    promoted = await full.promoter.tick()
    reaped = await full.reaper.tick()

    assert (promoted.promoted, reaped.retrying, reaped.holding) == (1, 1, False)


async def test_a_full_server_answers_waiting_claims(full: Harness) -> None:
    (lease,) = await leased(full, 1)
    waiter = await waiting_claim(full)
    await fill(full)

    await lease.release()

    assert len(await mailbox_lines(full, waiter)) == 1


async def test_a_full_server_accepts_pauses_and_discards(full: Harness) -> None:
    (lease,) = await leased(full, 1)
    await lease.fail(permanent=True)
    await fill(full)

    await full.queue.pause()
    await full.queue.resume()
    await full.queue.dead.discard(lease.id)
    assert await run_move(full, "scheduler/restamp", {"from": "-", "limit": 10}) == ["OK", ""]

    assert (await full.task(lease.id)).state is State.CANCELLED


async def test_new_tasks_are_accepted_again_when_there_is_room(full: Harness) -> None:
    await fill(full)
    with pytest.raises(Overloaded):
        await full.queue.enqueue("code")

    await full.client.config_set("maxmemory", "0")

    assert (await full.queue.enqueue("code")).created is True
