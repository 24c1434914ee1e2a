"""The clock of a queue in memory: every part of the queue uses it, and no other clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from rqueue import State
from rqueue.clock import SYSTEM
from rqueue.core.counts import read_leases
from rqueue.core.timers import read_last_check
from rqueue.errors import ConfigError
from rqueue.store.library import clocked_library, library
from rqueue.testing import Memory, memory
from rqueue.testing.timeline import CLOCK
from tests.testing.shop import Shop


def test_the_time_cannot_be_moved_backwards(held: Memory) -> None:
    with pytest.raises(ConfigError, match="backwards"):
        held.move_to("2001-01-01T00:00:00Z")


async def test_the_services_of_a_scheduler_report_no_fault(held: Memory) -> None:
    await held.queue.enqueue("code", delay_sec=1)
    held.advance(1)

    for service in held.queue.scheduler().services:
        if service.name != "inbox":
            await service.tick()

    assert [task.state for task in held.tasks()] == ["READY"]


async def test_the_clock_stands_still_while_real_time_passes(shop: Shop, held: Memory) -> None:
    handle = await shop.plain.enqueue(1)
    (lost,) = held.crash_worker()
    ended = await shop.plain.enqueue(2)
    await ended.cancel()
    until_ms = SYSTEM.now_ms() + 10
    while SYSTEM.now_ms() < until_ms:
        pass

    shard = shop.queue._internals.shard
    (lease,) = await read_leases(shard, idle_ms=0)
    server_ms, _ = await read_last_check(shard)
    key = shard.keys.task(ended.id.ulid)
    left_ms = await held.connection.call(lambda client: client.pttl(key))
    assert left_ms > timedelta(days=365_000) / timedelta(milliseconds=1)
    assert (lease.task, lease.idle_ms) == (lost.id.ulid, 0)
    assert server_ms == held.clock.ms
    assert await handle.status() is State.RUNNING


async def test_a_lease_ages_by_the_moved_time(held: Memory) -> None:
    await held.queue.enqueue("code")
    held.crash_worker()
    shard = held.queue._internals.shard

    held.advance(12.345)
    assert [one.idle_ms for one in await read_leases(shard, idle_ms=12_345)] == [12_345]
    assert await read_leases(shard, idle_ms=12_346) == []


async def test_an_idempotency_key_is_free_after_its_window(shop: Shop, held: Memory) -> None:
    once = shop.plain.options(idempotency_key="once")
    first = await once.enqueue(1)
    await held.run_until_idle()

    held.advance(shop.queue.settings.dedupe_window_sec - 0.001)
    second = await once.enqueue(2)
    held.advance(0.001)
    third = await once.enqueue(3)

    assert (second.id, second.created) == (first.id, False)
    assert third.created


async def test_the_reply_of_a_repeated_call_is_remembered_for_its_time(held: Memory) -> None:
    shard, settings = held.queue._internals.shard, held.queue.settings
    named = {"what": "type=code", **shard.request_args()}
    await shard.run("queue/pause", named)
    await held.queue.resume(type="code")

    held.advance(settings.claim_memo_sec - 0.001)
    await shard.run("queue/pause", named)
    assert (await held.queue.counts()).paused == set()
    held.advance(0.001)
    await shard.run("queue/pause", named)
    assert (await held.queue.counts()).paused == {"type=code"}


async def test_stored_data_has_the_time_of_the_test(shop: Shop) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with memory(shop.queue, now=now) as held:
        handle = await shop.flaky.enqueue(2)
        held.advance(5)
        await held.run_until_idle()
        held.advance(10)
        await held.run_until_idle()

        task = await handle.task()
        (failure,) = task.failure_history
        assert (task.created_at, failure.at) == (now, now + timedelta(seconds=5))
        assert task.completed_at == now + timedelta(seconds=15)


def test_the_library_of_an_installation_has_no_test_clock() -> None:
    usual, moved = library(), clocked_library(CLOCK)

    assert "test-clock" not in usual.source
    assert "clocked" not in usual.source
    assert "test-clock" in moved.source
    assert moved.name != usual.name
    assert {
        name: (move.keys, move.args, move.each, move.verb) for name, move in usual.moves.items()
    } == {name: (move.keys, move.args, move.each, move.verb) for name, move in moved.moves.items()}
    assert not {move.function for move in usual.moves.values()} & {
        move.function for move in moved.moves.values()
    }


# Commands whose effect or answer depends on the server's clock. Readers of the inbox, of the outbox
# and of notices take over from each other by real seconds.
TIMED = re.compile(
    r"(TIME|XADD|XCLAIM|XPENDING|XAUTOCLAIM|XREADGROUP|XINFO|XSETID|OBJECT"
    r"|P?EXPIRE(?:AT|TIME)?|P?TTL|P?SETEX|GETEX|HP?EXPIRE(?:AT)?|HP?TTL)"
)
REAL = {"XAUTOCLAIM", "XREADGROUP", "XINFO"}


def test_every_command_that_depends_on_time_uses_the_clock() -> None:
    used = set(re.findall(r'"([A-Z]{3,})"', library().source))
    seen = set(re.findall(r"function commands\.([A-Z]+)", CLOCK))

    assert {command for command in used if TIMED.fullmatch(command)} - REAL <= seen
    assert len(used) > 50
