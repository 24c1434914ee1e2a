"""permitted: which commands the user of the call may not send."""

from __future__ import annotations

from typing import Any

from tests.harness import Harness


async def refused(harness: Harness, *rows: str) -> list[int]:
    reply: list[Any] = await harness.queue._internals.shard.run(
        "queue/permitted", rows=[(row,) for row in rows]
    )
    assert reply[0] == b"OK"
    return reply[1:]


async def test_a_user_with_all_rights_is_refused_nothing(harness: Harness) -> None:
    assert await refused(harness, "XADD", "HSET", "CONFIG GET") == []


async def test_an_unknown_command_is_named_by_its_position(harness: Harness) -> None:
    assert await refused(harness, "HSET", "NOSUCHCOMMAND", "XADD") == [2]
