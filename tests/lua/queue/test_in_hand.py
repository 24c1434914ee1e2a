"""in_hand: the silent leases, a page at a time, oldest entry first."""

from __future__ import annotations

from rqueue.store.queue import in_hand
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import ask

TERMS: dict[str, Argument] = {"idle_ms": 30_000, "from": "-", "limit": 100}


async def test_a_silent_lease_is_shown_as_it_is(house: House) -> None:
    lease = await house.running()
    entry = (await house.client.hget(house.keys.task(lease.id.ulid), "entry")).decode()
    await house.age(lease, 60)
    before = await house.dump()

    _, (task, at, consumer, idle, *rest) = await ask(house, "queue/in_hand", TERMS)

    assert (task, at, consumer) == (lease.id.ulid, entry, "w1")
    assert idle >= 60_000
    assert rest == ["RUNNING", lease.token, "1"]
    assert await house.dump() == before


async def test_one_that_is_heard_of_is_not_shown(house: House) -> None:
    await house.running()

    assert await ask(house, "queue/in_hand", TERMS) == ["OK"]


async def test_nobody_has_claimed_anything_yet(house: House) -> None:
    assert await ask(house, "queue/in_hand", TERMS) == ["OK"]
    assert await house.dump() == {}


async def test_pages_follow_one_another(house: House) -> None:
    handles = await house.queue.enqueue_many([house.queue.call("code")] * 5)
    for lease in await house.queue.claim(worker="w1", types=["code"], n=5):
        await house.age(lease, 60)

    found: list[str] = []
    after = ""
    while page := await in_hand(house.queue.shard, idle_ms=1000, after=after, limit=2):
        assert len(page) <= 2
        found += [lease.task for lease in page]
        after = page[-1].entry

    assert found == [handle.id.ulid for handle in handles]


async def test_a_lease_whose_entry_is_lost_has_no_name(house: House) -> None:
    lease = await house.running()
    entry = await house.client.hget(house.keys.task(lease.id.ulid), "entry")
    await house.age(lease, 60)
    await house.client.xdel(house.keys.ready(), entry)

    _, (task, at, consumer, _, *rest) = await ask(house, "queue/in_hand", TERMS)

    assert (task, at, consumer, rest) == ("", entry.decode(), "w1", ["", "", "0"])
