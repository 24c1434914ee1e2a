"""The reader meets bytes that nobody checked: one task stands in no other's way."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.model.task import Tokens
from rqueue.store.reader import Reader
from tests.house import House

Break = Callable[[House, str], Awaitable[Any]]


def hash_field(name: str, value: str | bytes) -> Break:
    """Writes a field of the task's hash."""
    return lambda house, task: house.client.hset(house.keys.task(task), name, value)


def without(name: str) -> Break:
    """Takes a field out of the task's hash."""
    return lambda house, task: house.client.hdel(house.keys.task(task), name)


def note(name: str, value: str | bytes) -> Break:
    """Writes a field of the task's notes."""
    return lambda house, task: house.client.hset(house.keys.notes(task), name, value)


def record(value: str | bytes) -> Break:
    """Adds a record of an attempt."""
    return lambda house, task: house.client.rpush(house.keys.failures(task), value)


UNREADABLE = {
    "no JSON": hash_field("def0", b"\xff{"),
    "not an object": hash_field("def0", "[]"),
    "a wrong type": hash_field("def0", '{"t":"code","max_attempts":"many"}'),
    "nothing": without("def0"),
}
DAMAGED: dict[str, tuple[str, Break]] = {
    "no JSON in more": ("more", hash_field("more", b"\xff{")),
    "a number as more": ("more", hash_field("more", "5")),
    "a life that is none": ("more", hash_field("more", '{"life":"x"}')),
    "no holder": ("holder", without("holder")),
    "a holder of one word": ("holder", hash_field("holder", "w1")),
    "a holder without times": ("holder", hash_field("holder", "x y w1")),
    "a claim beyond time": ("holder", hash_field("holder", f"{10**18} 0 w1")),
    "no entry": ("entry", without("entry")),
    "an entry that is none": ("entry", hash_field("entry", b"\xff-1")),
    "no score": ("score", without("score")),
    "a score that is none": ("score", hash_field("score", "nan")),
    "no lane": ("lane", without("lane")),
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
PASSED_OVER: dict[str, Break] = {
    "no state": without("state"),
    "a newer state": hash_field("state", "SUSPENDED"),
    "a hash where a list should be": lambda house, task: house.client.hset(
        house.keys.failures(task), "a", "b"
    ),
}


async def three(house: House) -> tuple[Lease, list[str]]:
    """A task in hand to break, and the ULIDs of a page with it in the middle."""
    before, lease, after = [await house.running() for _ in range(3)]
    return lease, [before.id.ulid, lease.id.ulid, after.id.ulid]


@pytest.mark.parametrize("how", UNREADABLE)
async def test_an_unreadable_definition_still_gives_a_task(house: House, how: str) -> None:
    lease, page = await three(house)
    await UNREADABLE[how](house, lease.id.ulid)

    before, task, after = await house.queue.runtime.reader.read(page)

    assert task is not None
    assert (task.type, task.payload, task.state) == ("code", None, State.RUNNING)
    assert task.unreadable
    assert (task.damaged, task.epoch, task.claim is not None) == ((), 1, True)
    assert [each and each.unreadable for each in (before, after)] == [None, None]


@pytest.mark.parametrize("how", DAMAGED)
async def test_a_damaged_part_is_left_out_and_named(house: House, how: str) -> None:
    part, damage = DAMAGED[how]
    lease, page = await three(house)
    await damage(house, lease.id.ulid)

    before, task, after = await house.queue.runtime.reader.read(page)

    assert task is not None
    assert task.damaged == (part,)
    assert (task.state, task.unreadable, task.type) == (State.RUNNING, None, "code")
    assert [each and each.damaged for each in (before, after)] == [(), ()]


@pytest.mark.parametrize("how", PASSED_OVER)
async def test_what_cannot_be_told_is_passed_over_with_one_warning(
    house: House, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    lease, page = await three(house)
    await PASSED_OVER[how](house, lease.id.ulid)

    reader = house.queue.runtime.reader
    for _ in range(2):
        found = await reader.read(page)

    assert [task is not None for task in found] == [True, False, True]
    ((name, level, message),) = caplog.record_tuples
    assert (name, level) == ("rqueue.store", logging.WARNING)
    assert message.startswith(f"task {lease.id.ulid} is passed over: ")


async def test_a_damaged_task_is_told_of_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    lease = await house.running()
    await note("progress", "{secret")(house, lease.id.ulid)

    for _ in range(3):
        await house.task(lease.id)

    assert [record.message for record in caplog.records] == [
        f"task {lease.id.ulid} cannot be read whole, see progress"
    ]


async def test_the_memory_of_warnings_is_bounded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.store.reader.MEMORY", 2)
    reader = Reader(house.queue.shard, lease_ms=1000)

    for at in range(5):
        reader.warn(str(at), "is damaged")

    assert reader.warned == {("4", "is damaged")}


async def test_only_the_broken_record_of_a_history_is_missing(house: House) -> None:
    lease = await house.running()
    for text in ('{"attempt":1}', "{", '{"attempt":2,"error":"no","region":"eu"}'):
        await record(text)(house, lease.id.ulid)

    task = await house.task(lease.id)

    assert [each.attempt for each in task.failure_history] == [1, 2]
    assert (task.last_error, task.damaged) == ("no", ("failures",))


async def test_only_the_broken_note_is_missing(house: House) -> None:
    lease = await house.running()
    for name, value in (("progress", "{"), ("checkpoint", "[1]"), ("tokens_out", "7")):
        await note(name, value)(house, lease.id.ulid)

    task = await house.task(lease.id)

    assert (task.progress, task.checkpoint, task.tokens_used) == (None, [1], Tokens(output=7))


async def test_without_any_time_a_task_is_as_old_as_its_id(house: House) -> None:
    lease = await house.running()
    await without("entry")(house, lease.id.ulid)

    task = await house.task(lease.id)

    made = datetime.fromtimestamp(lease.id.created_ms / 1000, UTC)
    assert abs((task.created_at - made).total_seconds()) < 0.001


async def test_a_broken_result_or_log_line_is_no_reason_to_raise(house: House) -> None:
    lease = await house.running()
    await lease.complete({"a": 1})
    await house.client.set(house.keys.result(lease.id.ulid), b"\xff")
    await house.client.rpush(house.keys.logs(lease.id.ulid), b"caf\xe9")

    task = await house.task(lease.id)

    assert (task.state, task.result, task.damaged) == (State.COMPLETED, None, ("result",))
    assert task.logs == ("caf\ufffd",)


@pytest.mark.parametrize("size", range(40, 60))
async def test_a_letter_may_fall_between_two_pieces_of_a_definition(
    house: House, size: int
) -> None:
    text = "a" * size + "é" * 8

    handle = await house.queue.enqueue("code", text)

    assert (await house.task(handle.id)).payload == text
