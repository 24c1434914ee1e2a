"""The reaper gives back what silent workers hold, and holds still when silence means nothing."""

from __future__ import annotations

import pytest

from rqueue import State
from rqueue.errors import LeaseLost
from tests.house import House

LEASE = 30.0


async def test_a_silent_workers_task_is_tried_again(house: House) -> None:
    lease = await house.running(max_attempts=3)
    await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.retrying, task.state, task.attempts) == (1, State.RETRYING, 1)
    assert task.failure_reason == "heartbeat_timeout"
    with pytest.raises(LeaseLost):
        await lease.complete("too late")


async def test_a_claim_that_never_started_goes_back_free(house: House) -> None:
    lease = await house.claimed()
    await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.ready, task.state, task.attempts) == (1, State.READY, 0)


async def test_a_renewed_lease_is_left_alone(house: House) -> None:
    lease = await house.running()
    await house.age(lease, LEASE * 2)
    await lease.renew()

    reaped = await house.reaper.tick()

    assert (reaped.retrying, (await house.task(lease.id)).state) == (0, State.RUNNING)
