"""The inbox as producers and their tests see it: plain commands, and hands to age a reader."""

from __future__ import annotations

import json
from typing import Any

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.services.inbox import Inbox
from rqueue.store.inbox import GROUP
from tests.house import House


def an_inbox(house: House, reader: str = "r1", queue: Queue | None = None) -> Inbox:
    """The service, by this name."""
    queue = queue or house.queue
    return Inbox(queue.shard, queue.settings, clock=SYSTEM, reader=reader)


async def add(house: House, *words: str | bytes) -> str:
    """Writes an entry as any producer would."""
    entry = await house.client.execute_command("XADD", house.keys.inbox(), "*", *words)
    return str(entry.decode())


async def send(house: House, *tasks: Any) -> str:
    """An entry with one field for each of these tasks."""
    return await add(house, *(word for task in tasks for word in ("task", json.dumps(task))))


async def held(house: House) -> dict[str, str]:
    """Who holds which entry."""
    pending = await house.client.xpending_range(house.keys.inbox(), GROUP, "-", "+", 1000)
    return {one["message_id"].decode(): one["consumer"].decode() for one in pending}


async def readers(house: House) -> set[str]:
    """The readers that the group knows."""
    found = await house.client.xinfo_consumers(house.keys.inbox(), GROUP)
    return {one["name"].decode() for one in found}


async def age(house: House, reader: str, *entries: str) -> None:
    """Lets a reader look as if it had been silent for long."""
    await house.client.xclaim(
        house.keys.inbox(), GROUP, reader, 0, list(entries), idle=60_000, justid=True
    )


async def left(house: House) -> int:
    """How many entries are still there."""
    return int(await house.client.xlen(house.keys.inbox()))


async def refused(house: House) -> list[tuple[str, str]]:
    """What was refused: which task of its entry, and why."""
    rows = await house.client.xrange(house.keys.rejected())
    return [(row[b"at"].decode(), row[b"reason"].decode()) for _, row in rows]


async def payloads(house: House) -> list[Any]:
    """The payloads of all live tasks, in the order they were made."""
    return [task.payload for task in sorted([one async for one in house.queue.find()], key=by_id)]


def by_id(task: Any) -> str:
    return str(task.id)
