"""The reader and damaged bytes: one task does not affect others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.core.reader import Reader
from rqueue.task.task import Tokens
from tests.harness import Harness

Break = Callable[[Harness, str], Awaitable[Any]]


def hash_field(name: str, value: str | bytes) -> Break:
    """Writes a field of the task's hash."""
    return lambda harness, task: harness.client.hset(harness.keys.task(task), name, value)


def deleted_field(name: str) -> Break:
    """Deletes a field of the task's hash."""
    return lambda harness, task: harness.client.hdel(harness.keys.task(task), name)


def note(name: str, value: str | bytes) -> Break:
    """Writes a field of the task's notes."""
    return lambda harness, task: harness.client.hset(harness.keys.notes(task), name, value)


def record(value: str | bytes) -> Break:
    """Adds a record of an attempt."""
    return lambda harness, task: harness.client.rpush(harness.keys.failures(task), value)


UNREADABLE = {
    "no JSON": hash_field("def0", b"\xff{"),
    "not an object": hash_field("def0", "[]"),
    "a wrong type": hash_field("def0", '{"t":"code","max_attempts":"many"}'),
    "nothing": deleted_field("def0"),
}
DAMAGED: dict[str, tuple[str, Break]] = {
    "no JSON in more": ("more", hash_field("more", b"\xff{")),
    "a number as more": ("more", hash_field("more", "5")),
    "a life that is none": ("more", hash_field("more", '{"life":"x"}')),
    "no holder": ("holder", deleted_field("holder")),
    "a holder of one word": ("holder", hash_field("holder", "w1")),
    "a holder without times": ("holder", hash_field("holder", "x y w1")),
    "a claim beyond time": ("holder", hash_field("holder", f"{10**18} 0 w1")),
    "no entry": ("entry", deleted_field("entry")),
    "an entry that is none": ("entry", hash_field("entry", b"\xff-1")),
    "no score": ("score", deleted_field("score")),
    "a score that is none": ("score", hash_field("score", "nan")),
    "no lane": ("lane", deleted_field("lane")),
    "a lane that is none": ("lane", hash_field("lane", "x")),
    "a token without epoch": ("token", hash_field("token", "x:y")),
    "attempts in words": ("attempts", hash_field("attempts", "many")),
    "attempts below zero": ("attempts", hash_field("attempts", "-1")),
    "reclaims beyond all numbers": ("reclaims", hash_field("reclaims", "9" * 5000)),
    "a priority that is none": ("priority", hash_field("priority", "high")),
    "made beyond time": ("created", hash_field("created", "1e300")),
    "due at infinity": ("due", hash_field("due", "inf")),
    "a record that is no JSON": ("failures", record(b"\xff")),
    "a record that is a list": ("failures", record("[]")),
    "a record of wrong types": ("failures", record('{"attempt":"first"}')),
    "a progress that is no JSON": ("progress", note("progress", b"\xff")),
    "a checkpoint that is no JSON": ("checkpoint", note("checkpoint", "{")),
    "a cost that is none": ("micro_usd", note("micro_usd", "much")),
    "tokens below zero": ("tokens_in", note("tokens_in", "-5")),
}
SKIPPED: dict[str, Break] = {
    "no state": deleted_field("state"),
    "a newer state": hash_field("state", "SUSPENDED"),
    "a hash where a list should be": lambda harness, task: harness.client.hset(
        harness.keys.failures(task), "a", "b"
    ),
}


async def three(harness: Harness) -> tuple[Lease, list[str]]:
    """A leased task to damage, and the ULIDs of a page with it in the middle."""
    before, lease, after = [await harness.running() for _ in range(3)]
    return lease, [before.id.ulid, lease.id.ulid, after.id.ulid]


@pytest.mark.parametrize("damage_name", UNREADABLE)
async def test_a_task_with_an_unreadable_definition_is_returned(
    harness: Harness, damage_name: str
) -> None:
    lease, page = await three(harness)
    await UNREADABLE[damage_name](harness, lease.id.ulid)

    before, task, after = await harness.queue._internals.runtime.reader.read(page)

    assert task is not None
    assert (task.type, task.payload, task.state) == ("code", None, State.RUNNING)
    assert task.unreadable
    assert (task.damaged, task.epoch, task.claim is not None) == ((), 1, True)
    assert [each and each.unreadable for each in (before, after)] == [None, None]


@pytest.mark.parametrize("damage_name", DAMAGED)
async def test_a_damaged_part_is_left_out_and_named(harness: Harness, damage_name: str) -> None:
    part, damage = DAMAGED[damage_name]
    lease, page = await three(harness)
    await damage(harness, lease.id.ulid)

    before, task, after = await harness.queue._internals.runtime.reader.read(page)

    assert task is not None
    assert task.damaged == (part,)
    assert (task.state, task.unreadable, task.type) == (State.RUNNING, None, "code")
    assert [each and each.damaged for each in (before, after)] == [(), ()]


@pytest.mark.parametrize("damage_name", SKIPPED)
async def test_a_task_that_cannot_be_read_is_skipped_with_one_warning(
    harness: Harness, damage_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    lease, page = await three(harness)
    await SKIPPED[damage_name](harness, lease.id.ulid)

    reader = harness.queue._internals.runtime.reader
    for _ in range(2):
        found = await reader.read(page)

    assert [task is not None for task in found] == [True, False, True]
    ((name, level, message),) = caplog.record_tuples
    assert (name, level) == ("rqueue.store", logging.WARNING)
    assert message.startswith(f"task {lease.id.ulid} is skipped: ")


async def test_a_damaged_task_is_logged_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    lease = await harness.running()
    await note("progress", "{secret")(harness, lease.id.ulid)

    for _ in range(3):
        await harness.task(lease.id)

    assert [record.message for record in caplog.records] == [
        f"task {lease.id.ulid} cannot be read completely, see progress"
    ]


async def test_the_number_of_stored_warnings_is_bounded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.core.reader.MEMORY", 2)
    reader = Reader(harness.queue._internals.shard, lease_ms=1000)

    for at in range(5):
        reader.warn(str(at), "is damaged")

    assert reader.warned == {("4", "is damaged")}


async def test_only_the_broken_record_of_a_history_is_missing(harness: Harness) -> None:
    lease = await harness.running()
    for text in ('{"attempt":1}', "{", '{"attempt":2,"error":"no","region":"eu"}'):
        await record(text)(harness, lease.id.ulid)

    task = await harness.task(lease.id)

    assert [each.attempt for each in task.failure_history] == [1, 2]
    assert (task.last_error, task.damaged) == ("no", ("failures",))


async def test_only_the_broken_note_is_missing(harness: Harness) -> None:
    lease = await harness.running()
    for name, value in (("progress", "{"), ("checkpoint", "[1]"), ("tokens_out", "7")):
        await note(name, value)(harness, lease.id.ulid)

    task = await harness.task(lease.id)

    assert (task.progress, task.checkpoint, task.tokens_used) == (None, [1], Tokens(output=7))


async def test_a_task_without_stored_times_has_the_creation_time_of_its_id(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await deleted_field("entry")(harness, lease.id.ulid)

    task = await harness.task(lease.id)

    made = datetime.fromtimestamp(lease.id.created_ms / 1000, UTC)
    assert abs((task.created_at - made).total_seconds()) < 0.001


async def test_a_damaged_result_or_log_line_raises_no_error(harness: Harness) -> None:
    lease = await harness.running()
    await lease.complete({"a": 1})
    await harness.client.set(harness.keys.result(lease.id.ulid), b"\xff")
    await harness.client.rpush(harness.keys.logs(lease.id.ulid), b"caf\xe9")

    task = await harness.task(lease.id)

    assert (task.state, task.result, task.damaged) == (State.COMPLETED, None, ("result",))
    assert task.logs == ("caf\ufffd",)


@pytest.mark.parametrize("size", range(40, 60))
async def test_a_character_may_be_split_between_two_pieces_of_a_definition(
    harness: Harness, size: int
) -> None:
    text = "a" * size + "é" * 8

    handle = await harness.queue.enqueue("code", text)

    assert (await harness.task(handle.id)).payload == text
