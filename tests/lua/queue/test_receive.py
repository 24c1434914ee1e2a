"""receive: entries of the inbox go to one reader, oldest first, and never get lost with it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.inbox import GROUP
from rqueue.store.scripts import Argument
from tests.house import House
from tests.inbox import add, age, held, readers
from tests.lua.task.afterwards import ask

SILENT_MS = 10_000


def terms(reader: str = "r1", **changed: Argument) -> dict[str, Argument]:
    given: dict[str, Argument] = {
        "idle_ms": SILENT_MS,
        "limit": 10,
        "max_bytes": 100,
        "after": "0-0",
    }
    return {"group": GROUP, "reader": reader, **given, **changed}


async def received(house: House, reader: str = "r1", **changed: Argument) -> list[Any]:
    return await ask(house, "queue/receive", terms(reader, **changed))


async def test_without_an_inbox_nothing_is_made(house: House) -> None:
    assert await received(house) == ["OK", "0-0"]
    assert await house.dump() == {}


async def test_new_entries_are_handed_out_with_each_of_their_fields(house: House) -> None:
    one = await add(house, "task", "a", "task", "b")
    two = await add(house, "form", "A")

    found = await received(house)

    assert found == ["OK", two, [one, "task", "a", "task", "b"], [two, "form", "A"]]
    assert await held(house) == {one: "r1", two: "r1"}
    assert await house.client.xlen(house.keys.inbox()) == 2


async def test_bytes_that_are_no_text_are_handed_out_as_they_are(house: House) -> None:
    await house.client.execute_command("XADD", house.keys.inbox(), "*", b"task", b"\xff\0")

    _, _, (_, *words) = await house.queue.shard.run("queue/receive", terms())

    assert words == [b"task", b"\xff\0"]


async def test_a_page_is_no_larger_than_asked_for(house: House) -> None:
    entries = [await add(house, "task", "a") for _ in range(3)]

    first = await received(house, limit=2)

    assert [row[0] for row in first[2:]] == entries[:2]
    assert first[1] == entries[1]


async def test_sent_again_it_hands_out_the_same(house: House) -> None:
    await add(house, "task", "a")
    first = await received(house)
    await add(house, "task", "b")

    assert await received(house) == first


async def test_a_long_value_is_cut_to_one_byte_more_than_allowed(house: House) -> None:
    entry = await add(house, "task", "x" * 100, "task", "y" * 102, "n" * 200, "")

    assert (await received(house))[2] == [
        entry, "task", "x" * 100, "task", "y" * 101, "n" * 101, "",
    ]  # fmt: skip


async def test_new_entries_wait_for_what_another_reader_holds(house: House) -> None:
    first = await add(house, "task", "a")
    await received(house, "r1")
    second = await add(house, "task", "b")

    assert await received(house, "r2") == ["OK", second]
    assert await held(house) == {first: "r1"}


async def test_entries_of_a_silent_reader_are_taken_over_before_new_ones(house: House) -> None:
    first = await add(house, "task", "a")
    await received(house, "dead")
    await add(house, "task", "b")
    await age(house, "dead", first)

    assert await received(house) == ["OK", first, [first, "task", "a"]]
    assert await held(house) == {first: "r1"}


async def test_asking_again_is_a_sign_of_life(house: House) -> None:
    first = await add(house, "task", "a")
    await received(house, "r1")
    await age(house, "r1", first)

    await received(house, "r1")

    assert await received(house, "r2") == ["OK", first]


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_an_entry_that_someone_deleted_is_not_held_any_more(
    house: House, reader: str
) -> None:
    first = await add(house, "task", "a")
    await received(house)
    await house.client.xdel(house.keys.inbox(), first)

    assert await received(house, reader) == ["OK", first]
    assert await held(house) == {}


async def test_an_entry_beside_one_that_someone_deleted_is_handed_out(house: House) -> None:
    first, second = await add(house, "task", "a"), await add(house, "task", "b")
    await received(house)
    await house.client.xdel(house.keys.inbox(), first)

    assert await received(house) == ["OK", second, [second, "task", "b"]]


async def test_an_entry_deleted_under_a_silent_reader_holds_nothing_back(house: House) -> None:
    first = await add(house, "task", "a")
    await received(house, "dead")
    await age(house, "dead", first)
    await house.client.xdel(house.keys.inbox(), first)
    second = await add(house, "task", "b")

    assert await received(house) == ["OK", second, [second, "task", "b"]]


async def test_readers_that_hold_nothing_and_are_silent_are_forgotten(house: House) -> None:
    entry = await add(house, "task", "a")
    await received(house, "gone")
    await house.client.xack(house.keys.inbox(), GROUP, entry)
    assert await readers(house) == {"gone"}

    assert await received(house, "r1", idle_ms=0) == ["OK", entry]

    assert "gone" not in await readers(house)


async def test_a_reader_that_holds_something_is_not_forgotten(house: House) -> None:
    entry = await add(house, "task", "a")
    await received(house, "busy")

    assert await received(house, "r1") == ["OK", entry]

    assert "busy" in await readers(house)
    assert await held(house) == {entry: "busy"}


async def test_a_group_that_was_destroyed_begins_anew(house: House) -> None:
    entry = await add(house, "task", "a")
    await received(house)
    await house.client.xgroup_destroy(house.keys.inbox(), GROUP)

    assert await received(house, "r2") == ["OK", entry, [entry, "task", "a"]]


async def test_other_groups_of_the_stream_are_left_alone(house: House) -> None:
    await add(house, "task", "a")
    await house.client.xgroup_create(house.keys.inbox(), "mirror", "$")

    assert len(await received(house)) == 3


async def test_a_reader_passes_over_what_it_leaves_for_later(house: House) -> None:
    entries = [await add(house, "task", "a") for _ in range(3)]
    await received(house, limit=2)

    behind = await received(house, after=entries[0])
    new = await received(house, after=entries[1])

    assert [row[0] for row in behind[2:]] == [entries[1]]
    assert [row[0] for row in new[2:]] == [entries[2]]
    assert await held(house) == dict.fromkeys(entries, "r1")
    assert [row[0] for row in (await received(house))[2:]] == entries


async def test_what_another_holds_is_waited_for_by_who_holds_some_itself(house: House) -> None:
    entries = [await add(house, "task", "a") for _ in range(2)]
    await received(house, "r1", limit=1)
    await house.client.xreadgroup(GROUP, "r2", {house.keys.inbox(): ">"}, count=1)
    await add(house, "task", "b")

    assert len(await received(house, "r1", after=entries[0])) == 2
