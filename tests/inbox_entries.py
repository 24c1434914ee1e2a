"""The inbox for producers and their tests: plain commands, and a function that ages a reader."""

from __future__ import annotations

import json
from typing import Any

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.inbox.reader import Inbox
from rqueue.inbox.store import GROUP
from tests.harness import Harness


def an_inbox(harness: Harness, reader: str = "r1", queue: Queue | None = None) -> Inbox:
    """The inbox service with a reader name."""
    queue = queue or harness.queue
    return Inbox(queue._internals.shard, queue.settings, clock=SYSTEM, reader=reader)


async def add(harness: Harness, *words: str | bytes) -> str:
    """Writes an entry with plain XADD."""
    entry = await harness.client.execute_command("XADD", harness.keys.inbox(), "*", *words)
    return str(entry.decode())


async def send(harness: Harness, *tasks: Any) -> str:
    """Writes an entry with one field for each of these tasks."""
    return await add(harness, *(word for task in tasks for word in ("task", json.dumps(task))))


async def held(harness: Harness) -> dict[str, str]:
    """The consumer of each pending entry."""
    pending = await harness.client.xpending_range(harness.keys.inbox(), GROUP, "-", "+", 1000)
    return {one["message_id"].decode(): one["consumer"].decode() for one in pending}


async def readers(harness: Harness) -> set[str]:
    """The readers in the group."""
    found = await harness.client.xinfo_consumers(harness.keys.inbox(), GROUP)
    return {one["name"].decode() for one in found}


async def age(harness: Harness, reader: str, *entries: str) -> None:
    """Ages pending entries as if their reader had been silent for long."""
    await harness.client.xclaim(
        harness.keys.inbox(), GROUP, reader, 0, list(entries), idle=60_000, justid=True
    )


async def left(harness: Harness) -> int:
    """The number of entries."""
    return int(await harness.client.xlen(harness.keys.inbox()))


async def refused(harness: Harness) -> list[tuple[str, str]]:
    """The rejected tasks: the position in its entry, and the reason."""
    rows = await harness.client.xrange(harness.keys.rejected())
    return [(row[b"at"].decode(), row[b"reason"].decode()) for _, row in rows]


async def payloads(harness: Harness) -> list[Any]:
    """The payloads of all live tasks, in order of creation."""
    return [task.payload for task in sorted([one async for one in harness.queue.find()], key=by_id)]


def by_id(task: Any) -> str:
    return str(task.id)
