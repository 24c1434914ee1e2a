"""receive: entries of the inbox go to one reader, oldest first, and are not lost with it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.inbox.store import GROUP
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.inbox_entries import add, age, held, readers
from tests.lua.task.keyspace import run_move

SILENT_MS = 10_000


def terms(reader: str = "r1", **changed: Argument) -> dict[str, Argument]:
    given: dict[str, Argument] = {
        "idle_ms": SILENT_MS,
        "limit": 10,
        "max_bytes": 100,
        "after": "0-0",
    }
    return {"group": GROUP, "reader": reader, **given, **changed}


async def received(harness: Harness, reader: str = "r1", **changed: Argument) -> list[Any]:
    return await run_move(harness, "inbox/receive", terms(reader, **changed))


async def test_without_an_inbox_no_key_is_written(harness: Harness) -> None:
    assert await received(harness) == ["OK", "0-0"]
    assert await harness.dump() == {}


async def test_new_entries_are_returned_with_all_fields(harness: Harness) -> None:
    one = await add(harness, "task", "a", "task", "b")
    two = await add(harness, "form", "A")

    found = await received(harness)

    assert found == ["OK", two, [one, "task", "a", "task", "b"], [two, "form", "A"]]
    assert await held(harness) == {one: "r1", two: "r1"}
    assert await harness.client.xlen(harness.keys.inbox()) == 2


async def test_binary_values_are_returned_unchanged(harness: Harness) -> None:
    await harness.client.execute_command("XADD", harness.keys.inbox(), "*", b"task", b"\xff\0")

    _, _, (_, *words) = await harness.queue._internals.shard.run("inbox/receive", terms())

    assert words == [b"task", b"\xff\0"]


async def test_a_page_is_not_larger_than_its_limit(harness: Harness) -> None:
    entries = [await add(harness, "task", "a") for _ in range(3)]

    first = await received(harness, limit=2)

    assert [row[0] for row in first[2:]] == entries[:2]
    assert first[1] == entries[1]


async def test_a_repeated_call_returns_the_same_entries(harness: Harness) -> None:
    await add(harness, "task", "a")
    first = await received(harness)
    await add(harness, "task", "b")

    assert await received(harness) == first


async def test_a_long_value_is_cut_to_one_byte_more_than_allowed(harness: Harness) -> None:
    entry = await add(harness, "task", "x" * 100, "task", "y" * 102, "n" * 200, "")

    assert (await received(harness))[2] == [
        entry, "task", "x" * 100, "task", "y" * 101, "n" * 101, "",
    ]  # fmt: skip


async def test_new_entries_wait_for_entries_of_another_reader(harness: Harness) -> None:
    first = await add(harness, "task", "a")
    await received(harness, "r1")
    second = await add(harness, "task", "b")

    assert await received(harness, "r2") == ["OK", second]
    assert await held(harness) == {first: "r1"}


async def test_entries_of_a_silent_reader_are_taken_over_before_new_ones(harness: Harness) -> None:
    first = await add(harness, "task", "a")
    await received(harness, "dead")
    await add(harness, "task", "b")
    await age(harness, "dead", first)

    assert await received(harness) == ["OK", first, [first, "task", "a"]]
    assert await held(harness) == {first: "r1"}


async def test_a_repeated_call_counts_as_activity(harness: Harness) -> None:
    first = await add(harness, "task", "a")
    await received(harness, "r1")
    await age(harness, "r1", first)

    await received(harness, "r1")

    assert await received(harness, "r2") == ["OK", first]


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_a_deleted_entry_leaves_the_pending_list(harness: Harness, reader: str) -> None:
    first = await add(harness, "task", "a")
    await received(harness)
    await harness.client.xdel(harness.keys.inbox(), first)

    assert await received(harness, reader) == ["OK", first]
    assert await held(harness) == {}


async def test_an_entry_beside_a_deleted_one_is_returned(harness: Harness) -> None:
    first, second = await add(harness, "task", "a"), await add(harness, "task", "b")
    await received(harness)
    await harness.client.xdel(harness.keys.inbox(), first)

    assert await received(harness) == ["OK", second, [second, "task", "b"]]


async def test_a_deleted_entry_of_a_silent_reader_holds_nothing_back(harness: Harness) -> None:
    first = await add(harness, "task", "a")
    await received(harness, "dead")
    await age(harness, "dead", first)
    await harness.client.xdel(harness.keys.inbox(), first)
    second = await add(harness, "task", "b")

    assert await received(harness) == ["OK", second, [second, "task", "b"]]


async def test_silent_readers_that_hold_nothing_are_removed(harness: Harness) -> None:
    entry = await add(harness, "task", "a")
    await received(harness, "gone")
    await harness.client.xack(harness.keys.inbox(), GROUP, entry)
    assert await readers(harness) == {"gone"}

    assert await received(harness, "r1", idle_ms=0) == ["OK", entry]

    assert "gone" not in await readers(harness)


async def test_a_reader_that_holds_an_entry_is_not_removed(harness: Harness) -> None:
    entry = await add(harness, "task", "a")
    await received(harness, "busy")

    assert await received(harness, "r1") == ["OK", entry]

    assert "busy" in await readers(harness)
    assert await held(harness) == {entry: "busy"}


async def test_a_destroyed_group_is_created_again(harness: Harness) -> None:
    entry = await add(harness, "task", "a")
    await received(harness)
    await harness.client.xgroup_destroy(harness.keys.inbox(), GROUP)

    assert await received(harness, "r2") == ["OK", entry, [entry, "task", "a"]]


async def test_other_groups_of_the_stream_are_unchanged(harness: Harness) -> None:
    await add(harness, "task", "a")
    await harness.client.xgroup_create(harness.keys.inbox(), "mirror", "$")

    assert len(await received(harness)) == 3


async def test_a_reader_skips_entries_that_it_postponed(harness: Harness) -> None:
    entries = [await add(harness, "task", "a") for _ in range(3)]
    await received(harness, limit=2)

    behind = await received(harness, after=entries[0])
    new = await received(harness, after=entries[1])

    assert [row[0] for row in behind[2:]] == [entries[1]]
    assert [row[0] for row in new[2:]] == [entries[2]]
    assert await held(harness) == dict.fromkeys(entries, "r1")
    assert [row[0] for row in (await received(harness))[2:]] == entries


async def test_a_reader_with_postponed_entries_waits_for_entries_of_others(
    harness: Harness,
) -> None:
    entries = [await add(harness, "task", "a") for _ in range(2)]
    await received(harness, "r1", limit=1)
    await harness.client.xreadgroup(GROUP, "r2", {harness.keys.inbox(): ">"}, count=1)
    await add(harness, "task", "b")

    assert len(await received(harness, "r1", after=entries[0])) == 2
