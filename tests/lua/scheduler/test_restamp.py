"""restamp: after a backward step of the clock every lease counts as just renewed."""

from __future__ import annotations

from rqueue.core.timers import restamp
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

TERMS: dict[str, Argument] = {"from": "-", "limit": 100}
SILENT: dict[str, Argument] = {"idle_ms": 30_000, "from": "-", "limit": 100}


async def silent(harness: Harness, count: int) -> list[str]:
    """The entries of unrenewed leases of two workers."""
    await harness.queue.enqueue_many([harness.queue.call("code")] * count)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=count - 1)
    leases += await harness.queue.claim(worker="w2", types=["code"])
    for lease in leases:
        await harness.age(lease, 60)
    return [
        (await harness.client.hget(harness.keys.task(lease.id.ulid), "entry")).decode()
        for lease in leases
    ]


async def test_silent_leases_count_as_renewed_and_stay_with_their_holders(harness: Harness) -> None:
    await silent(harness, 3)
    assert len(await run_move(harness, "scheduler/silent_leases", SILENT)) == 4
    before = await harness.dump()

    reply = await run_move(harness, "scheduler/restamp", TERMS)

    assert reply == ["OK", ""]
    assert await run_move(harness, "scheduler/silent_leases", SILENT) == ["OK"]
    assert await harness.dump() == before


async def test_a_restamp_does_not_count_as_a_delivery(harness: Harness) -> None:
    await silent(harness, 2)
    key = harness.keys.ready()
    before = await harness.client.xpending_range(key, "workers", "-", "+", 9)

    await run_move(harness, "scheduler/restamp", TERMS)

    after = await harness.client.xpending_range(key, "workers", "-", "+", 9)
    assert [one["times_delivered"] for one in after] == [one["times_delivered"] for one in before]


async def test_a_full_page_returns_its_last_entry(harness: Harness) -> None:
    first, second, third = await silent(harness, 3)

    assert await run_move(harness, "scheduler/restamp", TERMS | {"limit": 2}) == ["OK", second]
    assert len(await run_move(harness, "scheduler/silent_leases", SILENT)) == 2

    args = TERMS | {"from": f"({second}", "limit": 2}
    assert await run_move(harness, "scheduler/restamp", args) == ["OK", ""]
    assert await run_move(harness, "scheduler/silent_leases", SILENT) == ["OK"]
    assert first < second < third


async def test_the_client_reads_all_pages(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code")] * 501)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=500)
    leases += await harness.queue.claim(worker="w1", types=["code"], n=500)
    for lease in leases:
        await harness.age(lease, 60)

    await restamp(harness.queue._internals.shard)

    assert len(leases) == 501
    assert await run_move(harness, "scheduler/silent_leases", SILENT) == ["OK"]


async def test_before_the_first_claim_there_is_nothing_to_do(harness: Harness) -> None:
    assert await run_move(harness, "scheduler/restamp", TERMS) == ["OK", ""]
    assert await harness.dump() == {}
