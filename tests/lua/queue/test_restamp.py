"""restamp: after a backward step of the clock every lease counts as just renewed."""

from __future__ import annotations

from rqueue.store.reaping import restamp
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import ask

TERMS: dict[str, Argument] = {"from": "-", "limit": 100}
SILENT: dict[str, Argument] = {"idle_ms": 30_000, "from": "-", "limit": 100}


async def silent(house: House, count: int) -> list[str]:
    """Leases of two workers that nobody renewed; their entries."""
    await house.queue.enqueue_many([house.queue.call("code")] * count)
    leases = await house.queue.claim(worker="w1", types=["code"], n=count - 1)
    leases += await house.queue.claim(worker="w2", types=["code"])
    for lease in leases:
        await house.age(lease, 60)
    return [
        (await house.client.hget(house.keys.task(lease.id.ulid), "entry")).decode()
        for lease in leases
    ]


async def test_silent_leases_seem_renewed_and_stay_with_their_holders(house: House) -> None:
    await silent(house, 3)
    assert len(await ask(house, "queue/in_hand", SILENT)) == 4
    before = await house.dump()

    said = await ask(house, "queue/restamp", TERMS)

    assert said == ["OK", ""]
    assert await ask(house, "queue/in_hand", SILENT) == ["OK"]
    assert await house.dump() == before


async def test_a_renewal_is_no_delivery(house: House) -> None:
    await silent(house, 2)
    key = house.keys.ready()
    before = await house.client.xpending_range(key, "workers", "-", "+", 9)

    await ask(house, "queue/restamp", TERMS)

    after = await house.client.xpending_range(key, "workers", "-", "+", 9)
    assert [one["times_delivered"] for one in after] == [one["times_delivered"] for one in before]


async def test_a_full_page_says_where_to_go_on(house: House) -> None:
    first, second, third = await silent(house, 3)

    assert await ask(house, "queue/restamp", TERMS | {"limit": 2}) == ["OK", second]
    assert len(await ask(house, "queue/in_hand", SILENT)) == 2

    args = TERMS | {"from": f"({second}", "limit": 2}
    assert await ask(house, "queue/restamp", args) == ["OK", ""]
    assert await ask(house, "queue/in_hand", SILENT) == ["OK"]
    assert first < second < third


async def test_the_store_goes_through_all_pages(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code")] * 501)
    leases = await house.queue.claim(worker="w1", types=["code"], n=500)
    leases += await house.queue.claim(worker="w1", types=["code"], n=500)
    for lease in leases:
        await house.age(lease, 60)

    await restamp(house.queue.shard)

    assert len(leases) == 501
    assert await ask(house, "queue/in_hand", SILENT) == ["OK"]


async def test_before_the_first_claim_there_is_nothing_to_do(house: House) -> None:
    assert await ask(house, "queue/restamp", TERMS) == ["OK", ""]
    assert await house.dump() == {}
