"""received: entries that are dealt with go, and what was refused of them is kept, once."""

from __future__ import annotations

from rqueue.store.inbox import GROUP, receive
from rqueue.store.scripts import Argument
from tests.house import House
from tests.inbox import add, held
from tests.lua.task.afterwards import afterwards, ask

TERMS: dict[str, Argument] = {"group": GROUP, "keep": 100}


def row(entry: str, at: str = "", reason: str = "", task: str = "") -> tuple[Argument, ...]:
    return (entry, at, reason, "A" if reason else "", 0, task)


async def test_an_entry_that_is_done_with_leaves_nothing(house: House) -> None:
    entry = await add(house, "task", "a")
    await receive(house.queue.shard, "r1", idle_ms=10_000)

    assert await ask(house, "queue/received", TERMS, [row(entry)]) == ["OK", 1]

    assert await afterwards(house) == {"inbox": []}
    assert await held(house) == {}


async def test_what_was_refused_is_kept_with_its_reason(house: House) -> None:
    one, two = await add(house, "task", "a", "task", "b"), await add(house, "task", "c")
    await receive(house.queue.shard, "r1", idle_ms=10_000)
    rows = [row(one, "0", "bad", "a"), row(one, "1", "worse", "b"), row(two)]

    assert await ask(house, "queue/received", TERMS, rows) == ["OK", 2]

    shared = {"entry": one, "form": "A", "cut": "0"}
    assert await afterwards(house) == {
        "inbox": [],
        "rejected": [
            {"at": "0", "reason": "bad", "task": "a", **shared},
            {"at": "1", "reason": "worse", "task": "b", **shared},
        ],
    }


async def test_sent_again_it_keeps_nothing_twice(house: House) -> None:
    entry = await add(house, "task", "a")
    await receive(house.queue.shard, "r1", idle_ms=10_000)
    await ask(house, "queue/received", TERMS, [row(entry, "0", "bad", "a")])
    before = await house.dump()

    assert await ask(house, "queue/received", TERMS, [row(entry, "0", "bad", "a")]) == ["OK", 0]

    assert await house.dump() == before


async def test_entries_that_others_hold_stay(house: House) -> None:
    one, two = await add(house, "task", "a"), await add(house, "task", "b")
    await receive(house.queue.shard, "r1", idle_ms=10_000)

    await ask(house, "queue/received", TERMS, [row(one)])

    assert await held(house) == {two: "r1"}
    assert [entry for entry, _ in await house.client.xrange(house.keys.inbox())] == [two.encode()]


async def test_without_an_inbox_nothing_is_made(house: House) -> None:
    assert await ask(house, "queue/received", TERMS, [row("1-1", "0", "bad", "a")]) == ["OK", 0]
    assert await house.dump() == {}


async def test_refusals_are_bounded(house: House) -> None:
    for _ in range(3):
        entry = await add(house, "task", "a")
        rows = [row(entry, str(at), "bad", "a") for at in range(300)]
        await ask(house, "queue/received", TERMS, rows)

    # Whole nodes of the stream are trimmed, of 100 entries each.
    assert 100 <= await house.client.xlen(house.keys.rejected()) < 300
