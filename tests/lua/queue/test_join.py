"""join: from now on the queue has an archive, and all feel its bound."""

from __future__ import annotations

from tests.house import House
from tests.lua.rows import everything, pttl
from tests.lua.task.afterwards import ask


async def test_a_queue_has_an_archive_until_it_is_left(house: House) -> None:
    assert await ask(house, "queue/join", {"most": 5}) == ["OK"]

    assert await everything(house) == {"archiving": "5"}
    assert await pttl(house, "archiving") == -1


async def test_the_last_who_joins_says_how_much_may_wait(house: House) -> None:
    await ask(house, "queue/join", {"most": 5})

    assert await ask(house, "queue/join", {"most": 0}) == ["OK"]

    assert await everything(house) == {"archiving": "0"}
