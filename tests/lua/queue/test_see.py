"""see: the reaper's look is remembered, on a full server too (test_full.py)."""

from __future__ import annotations

from rqueue.policy.lease import Seen
from rqueue.store.reaping import read_seen, write_seen
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask

TERMS: dict[str, Argument] = {"at_ms": 5, "run_id": "abc", "hold_ms": 7}


async def test_a_look_is_written_down(house: House) -> None:
    assert await ask(house, "queue/see", TERMS) == ["OK"]

    seen = {"at_ms": "5", "run_id": "abc", "hold_until_ms": "7"}
    assert await afterwards(house) == {"reaper:seen": seen}


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    await ask(house, "queue/see", TERMS)
    before = await house.dump()

    assert await ask(house, "queue/see", TERMS) == ["OK"]
    assert await house.dump() == before


async def test_what_was_seen_is_read_back(house: House) -> None:
    now_ms, nothing = await read_seen(house.queue.shard)
    assert (nothing, now_ms > 0) == (None, True)

    await write_seen(house.queue.shard, Seen(now_ms, "abc", now_ms + 5))

    later_ms, seen = await read_seen(house.queue.shard)
    assert seen == Seen(now_ms, "abc", now_ms + 5)
    assert later_ms >= now_ms
