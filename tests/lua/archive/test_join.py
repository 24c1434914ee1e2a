"""join: from now on the queue has an archive, and its bound applies to all clients."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.rows import everything, pttl
from tests.lua.task.keyspace import run_move


async def test_a_queue_has_an_archive_until_it_is_left(harness: Harness) -> None:
    assert await run_move(harness, "archive/join", {"most": 5}) == ["OK"]

    assert await everything(harness) == {"archiving": "5"}
    assert await pttl(harness, "archiving") == -1


async def test_the_last_join_sets_how_much_may_wait(harness: Harness) -> None:
    await run_move(harness, "archive/join", {"most": 5})

    assert await run_move(harness, "archive/join", {"most": 0}) == ["OK"]

    assert await everything(harness) == {"archiving": "0"}
