"""silent_leases: leases that were not renewed, a page at a time, oldest entry first."""

from __future__ import annotations

from rqueue.core.counts import read_leases
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

TERMS: dict[str, Argument] = {"idle_ms": 30_000, "from": "-", "limit": 100}


async def test_a_silent_lease_is_listed(harness: Harness) -> None:
    lease = await harness.running()
    entry = (await harness.client.hget(harness.keys.task(lease.id.ulid), "entry")).decode()
    await harness.age(lease, 60)
    before = await harness.dump()

    _, (task, at, consumer, idle, *rest) = await run_move(harness, "scheduler/silent_leases", TERMS)

    assert (task, at, consumer) == (lease.id.ulid, entry, "w1")
    assert idle >= 60_000
    assert rest == ["RUNNING", lease.token, "1"]
    assert await harness.dump() == before


async def test_a_renewed_lease_is_not_listed(harness: Harness) -> None:
    await harness.running()

    assert await run_move(harness, "scheduler/silent_leases", TERMS) == ["OK"]


async def test_before_the_first_claim_the_list_is_empty(harness: Harness) -> None:
    assert await run_move(harness, "scheduler/silent_leases", TERMS) == ["OK"]
    assert await harness.dump() == {}


async def test_pages_cover_all_leases(harness: Harness) -> None:
    handles = await harness.queue.enqueue_many([harness.queue.call("code")] * 5)
    for lease in await harness.queue.claim(worker="w1", types=["code"], n=5):
        await harness.age(lease, 60)

    found: list[str] = []
    after = ""
    while page := await read_leases(
        harness.queue._internals.shard, idle_ms=1000, after=after, limit=2
    ):
        assert len(page) <= 2
        found += [lease.task for lease in page]
        after = page[-1].entry

    assert found == [handle.id.ulid for handle in handles]


async def test_a_lease_without_its_entry_has_no_task(harness: Harness) -> None:
    lease = await harness.running()
    entry = await harness.client.hget(harness.keys.task(lease.id.ulid), "entry")
    await harness.age(lease, 60)
    await harness.client.xdel(harness.keys.ready(), entry)

    _, (task, at, consumer, _, *rest) = await run_move(harness, "scheduler/silent_leases", TERMS)

    assert (task, at, consumer, rest) == ("", entry.decode(), "w1", ["", "", "0"])
