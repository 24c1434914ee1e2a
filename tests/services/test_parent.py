"""A child's end of the line to its parent."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, cast

from rqueue.services.parent import Parent
from rqueue.services.watching import Watch

MUCH = {"tasks_completed_total": ["x" * 4_000_000]}


class Asked:
    """A watch that knows one answer."""

    async def health(self) -> dict[str, Any]:
        return {"alive": True, "ready": True}


async def test_an_answer_is_told_even_while_figures_are_under_way() -> None:
    ours, theirs = socket.socketpair()
    parent = Parent(theirs, orphaned=lambda: None, resize=lambda _: None)
    await parent.open()
    assert parent.writer is not None
    parent.push(MUCH)
    assert parent.writer.transport.get_write_buffer_size() > 0

    # Nobody has read: these figures can wait for the next time, the answer cannot.
    parent.push(MUCH)
    await parent.answer("health", cast(Watch, Asked()))

    reader, writer = await asyncio.open_connection(sock=ours, limit=2**24)
    lines = [json.loads(await reader.readline()) for _ in range(2)]
    assert lines == [["figures", MUCH], ["health", {"alive": True, "ready": True}]]
    parent.writer.close()
    writer.close()


async def test_a_number_of_slots_is_handed_on_with_or_without_a_watch() -> None:
    ours, theirs = socket.socketpair()
    told: list[object] = []
    parent = Parent(theirs, orphaned=lambda: told.append("orphaned"), resize=told.append)
    await parent.open()
    ours.sendall(b"slots 7\nhealth\nslots 8\n")
    ours.close()

    await parent.listen()

    await parent.aclose()
    assert told == [7, 8, "orphaned"]
