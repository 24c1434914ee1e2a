"""see: the reaper's look is remembered, on a full server too (test_full.py)."""

from __future__ import annotations

from rqueue.core.timers import LastCheck, read_last_check, write_last_check
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask

TERMS: dict[str, Argument] = {"at_ms": 5, "run_id": "abc", "hold_ms": 7}


async def test_a_look_is_written_down(harness: Harness) -> None:
    assert await ask(harness, "scheduler/observe", TERMS) == ["OK"]

    seen = {"at_ms": "5", "run_id": "abc", "hold_until_ms": "7"}
    assert await afterwards(harness) == {"reaper:seen": seen}


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    await ask(harness, "scheduler/observe", TERMS)
    before = await harness.dump()

    assert await ask(harness, "scheduler/observe", TERMS) == ["OK"]
    assert await harness.dump() == before


async def test_what_was_seen_is_read_back(harness: Harness) -> None:
    now_ms, nothing = await read_last_check(harness.queue._internals.shard)
    assert (nothing, now_ms > 0) == (None, True)

    await write_last_check(harness.queue._internals.shard, LastCheck(now_ms, "abc", now_ms + 5))

    later_ms, seen = await read_last_check(harness.queue._internals.shard)
    assert seen == LastCheck(now_ms, "abc", now_ms + 5)
    assert later_ms >= now_ms
