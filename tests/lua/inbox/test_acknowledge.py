"""acknowledge: processed entries are deleted, and what was refused of them is stored, once."""

from __future__ import annotations

from rqueue.inbox.store import GROUP, receive
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.inbox_entries import add, held
from tests.lua.task.keyspace import all_keys, run_move

TERMS: dict[str, Argument] = {"group": GROUP, "keep": 100}


def row(entry: str, at: str = "", reason: str = "", task: str = "") -> tuple[Argument, ...]:
    return (entry, at, reason, "A" if reason else "", 0, task)


async def test_a_processed_entry_is_deleted(harness: Harness) -> None:
    entry = await add(harness, "task", "a")
    await receive(harness.queue._internals.shard, "r1", idle_ms=10_000)

    assert await run_move(harness, "inbox/acknowledge", TERMS, [row(entry)]) == ["OK", 1]

    assert await all_keys(harness) == {"inbox": []}
    assert await held(harness) == {}


async def test_a_refused_task_is_stored_with_its_reason(harness: Harness) -> None:
    one, two = await add(harness, "task", "a", "task", "b"), await add(harness, "task", "c")
    await receive(harness.queue._internals.shard, "r1", idle_ms=10_000)
    rows = [row(one, "0", "bad", "a"), row(one, "1", "worse", "b"), row(two)]

    assert await run_move(harness, "inbox/acknowledge", TERMS, rows) == ["OK", 2]

    shared = {"entry": one, "form": "A", "cut": "0"}
    assert await all_keys(harness) == {
        "inbox": [],
        "rejected": [
            {"at": "0", "reason": "bad", "task": "a", **shared},
            {"at": "1", "reason": "worse", "task": "b", **shared},
        ],
    }


async def test_a_repeated_call_stores_no_refusal_twice(harness: Harness) -> None:
    entry = await add(harness, "task", "a")
    await receive(harness.queue._internals.shard, "r1", idle_ms=10_000)
    await run_move(harness, "inbox/acknowledge", TERMS, [row(entry, "0", "bad", "a")])
    before = await harness.dump()

    assert await run_move(harness, "inbox/acknowledge", TERMS, [row(entry, "0", "bad", "a")]) == [
        "OK",
        0,
    ]

    assert await harness.dump() == before


async def test_entries_of_other_readers_stay(harness: Harness) -> None:
    one, two = await add(harness, "task", "a"), await add(harness, "task", "b")
    await receive(harness.queue._internals.shard, "r1", idle_ms=10_000)

    await run_move(harness, "inbox/acknowledge", TERMS, [row(one)])

    assert await held(harness) == {two: "r1"}
    assert [entry for entry, _ in await harness.client.xrange(harness.keys.inbox())] == [
        two.encode()
    ]


async def test_without_an_inbox_no_key_is_written(harness: Harness) -> None:
    assert await run_move(harness, "inbox/acknowledge", TERMS, [row("1-1", "0", "bad", "a")]) == [
        "OK",
        0,
    ]
    assert await harness.dump() == {}


async def test_refusals_are_bounded(harness: Harness) -> None:
    for _ in range(3):
        entry = await add(harness, "task", "a")
        rows = [row(entry, str(at), "bad", "a") for at in range(300)]
        await run_move(harness, "inbox/acknowledge", TERMS, rows)

    # Whole nodes of the stream are trimmed, of 100 entries each.
    assert 100 <= await harness.client.xlen(harness.keys.rejected()) < 300
