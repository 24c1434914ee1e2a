"""collect: entries of the outbox go to one archiver, oldest first, and are not lost with it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.outbox import GROUP, collect
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

SILENT_MS = 10_000


def terms(archiver: str = "a1", **changed: Argument) -> dict[str, Argument]:
    given: dict[str, Argument] = {
        "idle_ms": SILENT_MS,
        "limit": 10,
        "max_bytes": 1_000_000,
        "step": 2,
    }
    return {"group": GROUP, "archiver": archiver, **given, **changed}


async def collected(harness: Harness, archiver: str = "a1", **changed: Argument) -> list[str]:
    """The ids of the entries that an archiver gets."""
    word, found = await run_move(harness, "archive/collect", terms(archiver, **changed))
    assert word == "OK"
    return [entry for entry, _ in found]


async def ended(harness: Harness, count: int = 1) -> list[str]:
    """The ids of the entries of tasks that were cancelled one by one."""
    for _ in range(count):
        handle = await harness.queue.enqueue("code")
        await handle.cancel("no need")
    return [entry.decode() for entry, _ in await harness.client.xrange(harness.keys.outbox())]


async def holders(harness: Harness) -> dict[str, str]:
    pending = await harness.client.xpending_range(harness.keys.outbox(), GROUP, "-", "+", 100)
    return {one["message_id"].decode(): one["consumer"].decode() for one in pending}


async def archivers(harness: Harness) -> set[str]:
    found = await harness.client.xinfo_consumers(harness.keys.outbox(), GROUP)
    return {one["name"].decode() for one in found}


async def age(harness: Harness, archiver: str, *entries: str) -> None:
    """Makes an archiver silent for long."""
    await harness.client.xclaim(
        harness.keys.outbox(), GROUP, archiver, 0, list(entries), idle=60_000, justid=True
    )


async def test_without_an_outbox_no_key_is_written(archived_harness: Harness) -> None:
    assert await collected(archived_harness) == []
    assert await archived_harness.dump() == {}


async def test_two_archivers_get_different_entries(archived_harness: Harness) -> None:
    entries = await ended(archived_harness, 3)

    first = await collected(archived_harness, "a1", limit=2)
    second = await collected(archived_harness, "a2", limit=2)

    assert (first, second) == (entries[:2], entries[2:])
    assert await holders(archived_harness) == dict(zip(entries, ["a1", "a1", "a2"], strict=True))


async def test_a_repeated_call_returns_the_same_entries(archived_harness: Harness) -> None:
    await ended(archived_harness, 2)
    first = await collected(archived_harness)
    before = await archived_harness.dump()

    assert await collected(archived_harness) == first
    assert await archived_harness.dump() == before


async def test_entries_of_a_silent_archiver_go_to_another(archived_harness: Harness) -> None:
    entries = await ended(archived_harness, 2)
    await collected(archived_harness, "a1")
    assert await collected(archived_harness, "a2") == []

    await age(archived_harness, "a1", *entries)

    assert await collected(archived_harness, "a2") == entries
    assert set((await holders(archived_harness)).values()) == {"a2"}


async def test_a_silent_archiver_that_holds_nothing_is_removed(
    archived_harness: Harness,
) -> None:
    (entry,) = await ended(archived_harness)
    await collected(archived_harness, "a1")
    await archived_harness.client.xack(archived_harness.keys.outbox(), GROUP, entry)
    await archived_harness.client.xdel(archived_harness.keys.outbox(), entry)

    assert await collected(archived_harness, "a2", idle_ms=0) == []

    assert "a1" not in await archivers(archived_harness)


async def test_a_deleted_entry_does_not_hold_back_the_others(archived_harness: Harness) -> None:
    entries = await ended(archived_harness, 2)
    await collected(archived_harness)
    await archived_harness.client.xdel(archived_harness.keys.outbox(), entries[0])

    assert await collected(archived_harness) == entries[1:]


async def test_large_entries_are_returned_a_few_at_a_time(archived_harness: Harness) -> None:
    outbox = archived_harness.keys.outbox()
    sizes = [1, 1, 1, 1, 900, 900, 900, 1]
    entries = [
        (await archived_harness.client.xadd(outbox, {"t": b"x" * size})).decode() for size in sizes
    ]

    first = await collected(archived_harness, "a1", max_bytes=1_000)
    second = await collected(archived_harness, "a2", max_bytes=1_000)

    assert (first, second) == (entries[:6], entries[6:])
    assert await collected(archived_harness, "a1", max_bytes=1_000) == first


@pytest.mark.parametrize("size", [1, 9_000])
async def test_entries_of_any_size_and_any_bytes_are_returned(
    archived_harness: Harness, size: int
) -> None:
    words: list[Any] = [word for n in range(size) for word in (b"\xff%d" % n, b"\0")]
    await archived_harness.client.execute_command(
        "XADD", archived_harness.keys.outbox(), "*", *words
    )

    (entry,) = await collect(archived_harness.queue._internals.shard, "a1", idle_ms=1, limit=5)

    assert [(line.task, line.value) for line in entry.lines] == [
        (b"\xff%d" % n, b"\0") for n in range(size)
    ]
