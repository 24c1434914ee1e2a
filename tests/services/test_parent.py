"""A child's end of the line to its parent."""

from __future__ import annotations

import asyncio
import json
import socket
from types import SimpleNamespace
from typing import Any, cast

from rqueue.services.parent import RISE_SEC, Parent
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
    lines = [json.loads(await reader.readline()) for _ in range(3)]
    assert lines == [
        ["open", True],
        ["figures", MUCH],
        ["health", {"alive": True, "ready": True}],
    ]
    parent.writer.close()
    writer.close()


async def test_a_process_is_up_when_the_server_has_answered_one_of_its_workers() -> None:
    ours, theirs = socket.socketpair()
    parent = Parent(theirs, orphaned=lambda: None, resize=lambda _: None)
    worker = SimpleNamespace(heard=False)
    watch = SimpleNamespace(watched=[SimpleNamespace(worker=None), SimpleNamespace(worker=worker)])
    reader, writer = await asyncio.open_connection(sock=ours)
    await parent.open()

    listening = asyncio.create_task(parent.listen(cast(Watch, watch)))
    opened = json.loads(await reader.readline())
    rising = asyncio.create_task(reader.readline())
    await asyncio.wait([rising], timeout=2 * RISE_SEC)
    early = rising.done()
    worker.heard = True

    assert (opened, early, json.loads(await rising)) == (["open", True], False, ["up", True])
    writer.close()
    await listening
    await parent.aclose()


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
