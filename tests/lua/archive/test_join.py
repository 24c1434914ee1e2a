"""join: from now on the queue has an archive, and all feel its bound."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.rows import everything, pttl
from tests.lua.task.keys_after import ask


async def test_a_queue_has_an_archive_until_it_is_left(harness: Harness) -> None:
    assert await ask(harness, "archive/join", {"most": 5}) == ["OK"]

    assert await everything(harness) == {"archiving": "5"}
    assert await pttl(harness, "archiving") == -1


async def test_the_last_who_joins_says_how_much_may_wait(harness: Harness) -> None:
    await ask(harness, "archive/join", {"most": 5})

    assert await ask(harness, "archive/join", {"most": 0}) == ["OK"]

    assert await everything(harness) == {"archiving": "0"}
