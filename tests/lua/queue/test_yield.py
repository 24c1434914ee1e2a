"""yield: whoever leads may stop at once; nobody may stop another."""

from __future__ import annotations

from rqueue.store.leading import lead, leader, yield_lead
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import ask

TTL_MS = 60_000


async def test_a_wrong_owner_yields_nothing(house: House) -> None:
    await lead(house.queue.shard, "a", ttl_ms=TTL_MS)
    before = await house.dump()

    assert await ask(house, "queue/yield", {"owner": "b"}) == ["LOST"]
    assert await house.dump() == before


async def test_nobody_leads_and_nobody_is_made_to(house: House) -> None:
    assert await ask(house, "queue/yield", {"owner": "a"}) == ["LOST"]
    assert await house.dump() == {}


async def test_the_term_is_over_and_its_epoch_is_kept(house: House) -> None:
    await lead(house.queue.shard, "a", ttl_ms=TTL_MS)

    assert await ask(house, "queue/yield", {"owner": "a"}) == ["OK"]

    assert await everything(house) == {
        "leader": {"owner": "a", "epoch": "1", "ttl_ms": str(TTL_MS), "until_ms": "0"}
    }
    assert await leader(house.queue.shard) is None


async def test_another_leads_at_once(house: House) -> None:
    await lead(house.queue.shard, "a", ttl_ms=TTL_MS)
    assert await yield_lead(house.queue.shard, "a") is True

    term = await lead(house.queue.shard, "b", ttl_ms=TTL_MS)

    assert (term.owner, term.epoch) == ("b", 2)


async def test_sent_again_it_says_the_same(house: House) -> None:
    await lead(house.queue.shard, "a", ttl_ms=TTL_MS)
    await ask(house, "queue/yield", {"owner": "a"})
    before = await house.dump()

    assert await ask(house, "queue/yield", {"owner": "a"}) == ["OK"]
    assert await house.dump() == before


async def test_sent_late_it_does_not_end_the_next_term(house: House) -> None:
    await lead(house.queue.shard, "a", ttl_ms=TTL_MS)
    await yield_lead(house.queue.shard, "a")
    await lead(house.queue.shard, "b", ttl_ms=TTL_MS)

    assert await yield_lead(house.queue.shard, "a") is False

    found = await leader(house.queue.shard)
    assert found is not None
    assert found.owner == "b"
