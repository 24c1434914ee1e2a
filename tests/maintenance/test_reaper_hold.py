"""The reaper reclaims nothing for one lease after a restart, a pause or a step of the clock."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.clock import SYSTEM
from rqueue.core import timers
from rqueue.core.timers import LastCheck, read_last_check, write_last_check
from rqueue.maintenance.reaper import Reaper
from rqueue.store.url import Client
from tests.harness import Harness

LEASE_MS = 30_000
STEP_MS = 3_600_000


async def silent(harness: Harness) -> Lease:
    """A lease that looks lost, after one check of the reaper."""
    await harness.reaper.tick()
    lease = await harness.running()
    await harness.age(lease, 60)
    return lease


async def change_last_check(
    harness: Harness, *, ago_ms: int = 0, run_id: str = "", hold_ms: int = 0
) -> None:
    """Changes what the reaper recorded at its last check."""
    now_ms, seen = await read_last_check(harness.queue._internals.shard)
    assert seen is not None
    until = now_ms + hold_ms if hold_ms else 0
    await write_last_check(
        harness.queue._internals.shard, LastCheck(now_ms - ago_ms, run_id or seen.run_id, until)
    )


async def held_until(harness: Harness) -> tuple[int, int]:
    """The time of the last check, and until when it holds."""
    _, seen = await read_last_check(harness.queue._internals.shard)
    assert seen is not None
    return seen.at_ms, seen.hold_until_ms


async def state(harness: Harness, lease: Lease) -> State:
    return (await harness.task(lease.id)).state


async def test_after_a_restart_nothing_is_reclaimed_for_a_lease(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, run_id="another run")

    assert (await harness.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(harness)
    assert until_ms == at_ms + LEASE_MS
    assert await state(harness, lease) is State.RUNNING


async def test_after_a_gap_nothing_is_reclaimed_for_a_lease(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, ago_ms=LEASE_MS // 3 + 1000)

    assert (await harness.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(harness)
    assert until_ms == at_ms + LEASE_MS
    assert await state(harness, lease) is State.RUNNING


async def test_a_short_gap_does_not_delay_the_reaper(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, ago_ms=LEASE_MS // 3 - 2000)

    assert (await harness.reaper.tick()).retrying == 1
    assert await state(harness, lease) is State.RETRYING


async def test_after_a_step_back_leases_count_as_renewed(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, ago_ms=-STEP_MS)

    assert (await harness.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(harness)
    (held,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    assert until_ms == at_ms + LEASE_MS
    assert held["time_since_delivered"] < LEASE_MS
    assert held["consumer"] == b"w1"
    assert await state(harness, lease) is State.RUNNING


async def test_a_restart_does_not_count_as_a_renewal(harness: Harness) -> None:
    await silent(harness)
    await change_last_check(harness, run_id="another run")

    await harness.reaper.tick()

    (held,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    assert held["time_since_delivered"] >= 60_000


async def test_the_waiting_time_continues_at_the_next_check(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, run_id="another run")
    await harness.reaper.tick()
    _, until_ms = await held_until(harness)

    assert (await harness.reaper.tick()).holding is True

    assert (await held_until(harness))[1] == until_ms
    assert await state(harness, lease) is State.RUNNING


async def test_a_worker_that_is_silent_after_the_waiting_time_is_reaped(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, hold_ms=-1)

    reaped = await harness.reaper.tick()

    assert (reaped.holding, reaped.retrying) == (False, 1)
    assert await state(harness, lease) is State.RETRYING


async def test_another_reaper_waits_too(harness: Harness) -> None:
    lease = await silent(harness)
    await change_last_check(harness, hold_ms=1000)

    assert (await harness.reaper.tick()).holding is True
    assert await state(harness, lease) is State.RUNNING


async def test_a_concurrent_check_of_another_reaper_is_not_a_step_back(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await silent(harness)
    now_ms, seen = await read_last_check(harness.queue._internals.shard)
    assert seen is not None
    theirs, clock = LastCheck(now_ms + 60_000, seen.run_id, 0), timers.clock

    async def overtaken(client: Client) -> Any:
        answer = await clock(client)
        await write_last_check(harness.queue._internals.shard, theirs)
        return answer

    monkeypatch.setattr(timers, "clock", overtaken)
    reaped = await harness.reaper.tick()

    assert reaped.holding is False
    assert await state(harness, lease) is State.RETRYING


async def test_a_worker_that_renews_during_the_waiting_time_keeps_its_lease(
    harness: Harness,
) -> None:
    lease = await silent(harness)
    await change_last_check(harness, run_id="another run")
    await harness.reaper.tick()
    await lease.renew()
    await change_last_check(harness, hold_ms=-1)

    reaped = await harness.reaper.tick()

    assert (reaped.holding, reaped.retrying) == (False, 0)
    await lease.complete()


async def test_a_reaper_that_always_checks_late_does_not_wait_forever(harness: Harness) -> None:
    lease = await silent(harness)
    holding, states = [], []

    for _ in range(5):
        await age_last_check(harness, LEASE_MS // 3 + 1000)
        holding.append((await harness.reaper.tick()).holding)
        states.append(await state(harness, lease))

    assert holding == [True, True, True, False, False]
    assert states[2:4] == [State.RUNNING, State.RETRYING]


async def test_a_reaper_with_a_long_interval_does_not_wait(harness: Harness) -> None:
    lease = await silent(harness)
    await age_last_check(harness, 32_000)

    assert (await slow_reaper(harness).tick()).retrying == 1
    assert await state(harness, lease) is State.RETRYING


async def test_a_reaper_with_a_long_interval_detects_a_pause(harness: Harness) -> None:
    lease = await silent(harness)
    await age_last_check(harness, 34_000)

    assert (await slow_reaper(harness).tick()).holding is True
    assert await state(harness, lease) is State.RUNNING


def slow_reaper(harness: Harness) -> Reaper:
    """Another reaper, which checks every eleven seconds."""
    return Reaper(
        harness.queue._internals.shard, harness.queue._internals.reader,
        harness.queue.settings,
        clock=SYSTEM, random=Random(8), interval_sec=11,
    )  # fmt: skip


async def age_last_check(harness: Harness, ms: int) -> None:
    """Moves the last check, and its hold, into the past."""
    for name in ("at_ms", "hold_until_ms"):
        await harness.client.hincrby(harness.keys.reaper(), name, -ms)
