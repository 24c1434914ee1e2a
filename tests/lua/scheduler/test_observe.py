"""observe: the reaper's check is stored, on a full server too (test_full.py)."""

from __future__ import annotations

from rqueue.core.timers import LastCheck, read_last_check, write_last_check
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, run_move

TERMS: dict[str, Argument] = {"at_ms": 5, "run_id": "abc", "hold_ms": 7}


async def test_a_check_is_stored(harness: Harness) -> None:
    assert await run_move(harness, "scheduler/observe", TERMS) == ["OK"]

    seen = {"at_ms": "5", "run_id": "abc", "hold_until_ms": "7"}
    assert await all_keys(harness) == {"reaper:seen": seen}


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    await run_move(harness, "scheduler/observe", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "scheduler/observe", TERMS) == ["OK"]
    assert await harness.dump() == before


async def test_a_check_is_read_back(harness: Harness) -> None:
    now_ms, nothing = await read_last_check(harness.queue._internals.shard)
    assert (nothing, now_ms > 0) == (None, True)

    await write_last_check(harness.queue._internals.shard, LastCheck(now_ms, "abc", now_ms + 5))

    later_ms, seen = await read_last_check(harness.queue._internals.shard)
    assert seen == LastCheck(now_ms, "abc", now_ms + 5)
    assert later_ms >= now_ms
