"""The reaper holds still for one lease after a restart, a pause or a step of the clock."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.clock import SYSTEM
from rqueue.policy.lease import Seen
from rqueue.services.reaper import Reaper
from rqueue.store import reaping
from rqueue.store.connection import Client
from rqueue.store.reaping import read_seen, write_seen
from tests.house import House

LEASE_MS = 30_000
STEP_MS = 3_600_000


async def silent(house: House) -> Lease:
    """A lease that looks lost, after the reaper has looked once."""
    await house.reaper.tick()
    lease = await house.running()
    await house.age(lease, 60)
    return lease


async def saw(house: House, *, ago_ms: int = 0, run_id: str = "", hold_ms: int = 0) -> None:
    """Changes what the reaper remembers of its last look."""
    now_ms, seen = await read_seen(house.queue.shard)
    assert seen is not None
    until = now_ms + hold_ms if hold_ms else 0
    await write_seen(house.queue.shard, Seen(now_ms - ago_ms, run_id or seen.run_id, until))


async def held_until(house: House) -> tuple[int, int]:
    """When the reaper last looked, and until when it holds."""
    _, seen = await read_seen(house.queue.shard)
    assert seen is not None
    return seen.at_ms, seen.hold_until_ms


async def state(house: House, lease: Lease) -> State:
    return (await house.task(lease.id)).state


async def test_after_a_restart_nothing_is_reclaimed_for_a_lease(house: House) -> None:
    lease = await silent(house)
    await saw(house, run_id="another run")

    assert (await house.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(house)
    assert until_ms == at_ms + LEASE_MS
    assert await state(house, lease) is State.RUNNING


async def test_after_a_gap_nothing_is_reclaimed_for_a_lease(house: House) -> None:
    lease = await silent(house)
    await saw(house, ago_ms=LEASE_MS // 3 + 1000)

    assert (await house.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(house)
    assert until_ms == at_ms + LEASE_MS
    assert await state(house, lease) is State.RUNNING


async def test_a_short_gap_holds_nothing_back(house: House) -> None:
    lease = await silent(house)
    await saw(house, ago_ms=LEASE_MS // 3 - 2000)

    assert (await house.reaper.tick()).retrying == 1
    assert await state(house, lease) is State.RETRYING


async def test_after_a_step_back_leases_count_as_renewed(house: House) -> None:
    lease = await silent(house)
    await saw(house, ago_ms=-STEP_MS)

    assert (await house.reaper.tick()).holding is True

    at_ms, until_ms = await held_until(house)
    (held,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    assert until_ms == at_ms + LEASE_MS
    assert held["time_since_delivered"] < LEASE_MS
    assert held["consumer"] == b"w1"
    assert await state(house, lease) is State.RUNNING


async def test_a_restart_does_not_make_leases_look_renewed(house: House) -> None:
    await silent(house)
    await saw(house, run_id="another run")

    await house.reaper.tick()

    (held,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    assert held["time_since_delivered"] >= 60_000


async def test_the_hold_goes_on_at_the_next_look(house: House) -> None:
    lease = await silent(house)
    await saw(house, run_id="another run")
    await house.reaper.tick()
    _, until_ms = await held_until(house)

    assert (await house.reaper.tick()).holding is True

    assert (await held_until(house))[1] == until_ms
    assert await state(house, lease) is State.RUNNING


async def test_after_the_hold_who_is_still_silent_is_reaped(house: House) -> None:
    lease = await silent(house)
    await saw(house, hold_ms=-1)

    reaped = await house.reaper.tick()

    assert (reaped.holding, reaped.retrying) == (False, 1)
    assert await state(house, lease) is State.RETRYING


async def test_another_reaper_holds_too(house: House) -> None:
    lease = await silent(house)
    await saw(house, hold_ms=1000)

    assert (await house.reaper.tick()).holding is True
    assert await state(house, lease) is State.RUNNING


async def test_a_look_of_another_meanwhile_is_no_step_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await silent(house)
    now_ms, seen = await read_seen(house.queue.shard)
    assert seen is not None
    theirs, clock = Seen(now_ms + 60_000, seen.run_id, 0), reaping.clock

    async def overtaken(client: Client) -> Any:
        answer = await clock(client)
        await write_seen(house.queue.shard, theirs)
        return answer

    monkeypatch.setattr(reaping, "clock", overtaken)
    reaped = await house.reaper.tick()

    assert reaped.holding is False
    assert await state(house, lease) is State.RETRYING


async def test_a_worker_that_is_heard_in_the_hold_keeps_its_lease(house: House) -> None:
    lease = await silent(house)
    await saw(house, run_id="another run")
    await house.reaper.tick()
    await lease.renew()
    await saw(house, hold_ms=-1)

    reaped = await house.reaper.tick()

    assert (reaped.holding, reaped.retrying) == (False, 0)
    await lease.complete()


async def test_a_reaper_that_always_looks_late_does_not_hold_for_ever(house: House) -> None:
    lease = await silent(house)
    holding, states = [], []

    for _ in range(5):
        await pass_ms(house, LEASE_MS // 3 + 1000)
        holding.append((await house.reaper.tick()).holding)
        states.append(await state(house, lease))

    assert holding == [True, True, True, False, False]
    assert states[2:4] == [State.RUNNING, State.RETRYING]


async def test_a_reaper_that_is_to_look_seldom_does_not_hold(house: House) -> None:
    lease = await silent(house)
    await pass_ms(house, 32_000)

    assert (await seldom(house).tick()).retrying == 1
    assert await state(house, lease) is State.RETRYING


async def test_a_pause_is_seen_by_a_reaper_that_is_to_look_seldom(house: House) -> None:
    lease = await silent(house)
    await pass_ms(house, 34_000)

    assert (await seldom(house).tick()).holding is True
    assert await state(house, lease) is State.RUNNING


def seldom(house: House) -> Reaper:
    """Another reaper, which is to look every eleven seconds."""
    return Reaper(
        house.queue.shard, house.queue.runtime.reader, house.queue.settings,
        clock=SYSTEM, random=Random(8), interval_sec=11,
    )  # fmt: skip


async def pass_ms(house: House, ms: int) -> None:
    """Lets the last look, and the hold that it knew of, be so much longer ago."""
    for name in ("at_ms", "hold_until_ms"):
        await house.client.hincrby(house.keys.reaper(), name, -ms)
