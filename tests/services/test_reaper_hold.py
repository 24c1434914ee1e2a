"""The reaper holds still for one lease after a restart, a pause or a step of the clock."""

from __future__ import annotations

from rqueue import Lease, State
from rqueue.policy.lease import Seen
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


async def test_a_worker_that_is_heard_in_the_hold_keeps_its_lease(house: House) -> None:
    lease = await silent(house)
    await saw(house, run_id="another run")
    await house.reaper.tick()
    await lease.renew()
    await saw(house, hold_ms=-1)

    reaped = await house.reaper.tick()

    assert (reaped.holding, reaped.retrying) == (False, 0)
    await lease.complete()
