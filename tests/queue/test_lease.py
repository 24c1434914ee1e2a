"""Leases by hand: every move of the holder, and the refusals after the lease is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import InvalidTask, LeaseLost, WrongState
from tests.harness import Harness, opened


async def test_a_task_is_claimed_started_renewed_and_completed_by_a_lease(harness: Harness) -> None:
    lease = await harness.claimed()

    await lease.start()
    started = await harness.task(lease.id)
    await lease.renew()
    await lease.validate()
    validating = await harness.task(lease.id)
    await lease.complete({"ok": True})
    completed = await harness.task(lease.id)

    assert (started.state, validating.state) == (State.RUNNING, State.VALIDATING)
    assert (completed.state, completed.result) == (State.COMPLETED, {"ok": True})
    assert started.started_at is not None
    assert completed.completed_at is not None
    assert completed.attempts == 0


MOVES: dict[str, Callable[[Lease], Awaitable[object]]] = {
    "start": lambda lease: lease.start(),
    "renew": lambda lease: lease.renew(),
    "validate": lambda lease: lease.validate(),
    "complete": lambda lease: lease.complete("mine"),
    "fail": lambda lease: lease.fail("error", "mine"),
    "park": lambda lease: lease.park(5),
    "release": lambda lease: lease.release(),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("since", ["given to another", "cancelled", "dead"])
async def test_a_lost_lease_changes_nothing(harness: Harness, move: str, since: str) -> None:
    lease = await harness.running()
    await harness.age(lease, 120)
    await harness.reaper.tick()
    if since == "given to another":
        await harness.queue.run_now(lease.id)
        (other,) = await harness.queue.claim(worker="w2")
        await other.start()
    elif since == "cancelled":
        await harness.queue.cancel(lease.id)
    else:
        await harness.queue.run_now(lease.id)
        (other,) = await harness.queue.claim(worker="w2")
        await other.fail("error", "no", permanent=True)
    before = await tasks_of(harness)

    with pytest.raises(LeaseLost) as caught:
        await MOVES[move](lease)

    assert (caught.value.task, caught.value.token) == (lease.id, lease.token)
    assert lease.token not in str(caught.value)
    assert await tasks_of(harness) == before


async def tasks_of(harness: Harness) -> dict[str, Any]:
    """Returns every key except the one with the heartbeats of workers."""
    found = await harness.dump()
    found.pop(harness.keys.workers())
    return found


@pytest.mark.parametrize("move", ["validate", "complete", "park"])
async def test_a_task_that_was_not_started_cannot_be_renewed_or_settled(
    harness: Harness, move: str
) -> None:
    lease = await harness.claimed()
    before = await harness.dump()

    with pytest.raises(WrongState) as caught:
        await MOVES[move](lease)

    assert (caught.value.task, caught.value.found) == (lease.id, "CLAIMED")
    assert "RUNNING" in caught.value.wanted
    assert await harness.dump() == before


async def test_a_task_in_validation_cannot_be_started_again(harness: Harness) -> None:
    lease = await harness.running()
    await lease.validate()

    with pytest.raises(WrongState):
        await lease.start()


async def test_a_released_task_is_ready_at_its_old_position(harness: Harness) -> None:
    first = await harness.running()
    second = await harness.queue.enqueue("code")

    await first.release()

    task = await harness.task(first.id)
    assert (task.state, task.attempts) == (State.READY, 0)
    leases = await harness.queue.claim(worker="w2", n=2)
    assert [lease.id for lease in leases] == [first.id, second.id]
    assert leases[0].task.epoch == 2


async def test_a_parked_task_waits_and_spends_no_attempt(harness: Harness) -> None:
    lease = await harness.running(max_attempts=1)

    await lease.park(60)

    task = await harness.task(lease.id)
    assert (task.state, task.attempts) == (State.RETRYING, 0)
    assert task.failure_reason == "rate_limit"
    assert task.retry_at is not None
    assert await harness.queue.claim(worker="w2") == []
    assert await harness.queue.run_now(lease.id) is True
    assert len(await harness.queue.claim(worker="w2")) == 1


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(("asked", "wait"), [(90.0, 90), (None, 60), (1e308, 365 * 86_400)])
async def test_a_rate_limited_task_is_parked_by_a_manual_lease_as_by_a_worker(
    harness: Harness, begun: bool, asked: float | None, wait: float
) -> None:
    lease = await (harness.running if begun else harness.claimed)(max_attempts=1)

    state = await lease.fail("rate_limit", "429", retry_after=asked)

    task = await harness.task(lease.id)
    assert (state, task.state) == (State.RETRYING, State.RETRYING)
    assert (task.attempts, task.parks, task.failure_history) == (0, 1, ())
    assert task.available_at is not None
    assert wait <= (task.available_at - task.created_at).total_seconds() < wait * 1.1 + 15
    (slow,) = await harness.queue.limits.slowdowns()
    rest = (slow.over_at - slow.until).total_seconds()
    assert min(wait / 2, 3600) <= rest <= min(wait / 2 * 1.1, 3600)


async def test_the_delay_of_a_manual_park_grows_each_time(harness: Harness) -> None:
    lease = await harness.running()
    await harness.client.hset(harness.keys.task(lease.id.ulid), "parks", 3)

    await lease.fail("rate_limit")

    task = await harness.task(lease.id)
    assert task.available_at is not None
    assert 480 <= (task.available_at - task.created_at).total_seconds() < 540


async def test_a_task_that_is_parked_too_often_fails_and_a_repeated_call_returns_the_same(
    server: Any,
) -> None:
    async with opened(server, max_rate_limit_parks=0) as harness:
        lease = await harness.running(max_attempts=1)

        states = [await lease.fail("rate_limit", "429", retry_after=5) for _ in range(2)]

        task = await harness.task(lease.id)
        assert states == [State.DEAD_LETTERED] * 2
        assert (task.attempts, task.parks, task.last_error) == (1, 0, "429")


@pytest.mark.parametrize("how", ["counts", "permanent"])
async def test_a_park_that_counts_or_is_permanent_fails_the_attempt(server: Any, how: str) -> None:
    async with opened(server, rate_limit_counts=how == "counts") as harness:
        lease = await harness.running()

        await lease.fail("rate_limit", "429", retry_after=5, permanent=how == "permanent")

        task = await harness.task(lease.id)
        assert (task.attempts, task.parks) == (1, 0)
        assert await harness.queue.limits.slowdowns() == []


async def test_a_lost_lease_parks_nothing(harness: Harness) -> None:
    lease = await harness.running()
    await lease.release()
    before = await harness.dump()

    with pytest.raises(LeaseLost):
        await lease.fail("rate_limit", retry_after=5)

    assert await harness.dump() == before


async def test_an_invalid_reason_changes_nothing(harness: Harness) -> None:
    lease = await harness.running()
    before = await harness.dump()

    for call in (lease.fail("boredom"), lease.park(1, "boredom")):
        with pytest.raises(InvalidTask, match="reason: 'boredom' is not one of timeout, crash, "):
            await call

    assert await harness.dump() == before


HOSTILE = ("x" * 100_000, "a\0b", "lone \ud800", "line\nline \x1b[31m", "")


@pytest.mark.parametrize("message", HOSTILE)
async def test_any_error_text_can_be_stored(harness: Harness, message: str) -> None:
    lease = await harness.running()

    assert await lease.fail("error", message) is State.RETRYING

    kept = (await harness.task(lease.id)).last_error
    assert kept is not None
    assert len(kept) <= 8192
    assert "\0" not in kept
    assert kept.encode().decode() == kept


@pytest.mark.parametrize("bad", [float("nan"), "a\0b", "\ud800", 2**63, {1: 2}, "x" * 262_145])
async def test_an_invalid_result_is_refused_and_the_lease_is_kept(
    harness: Harness, bad: Any
) -> None:
    lease = await harness.running()
    before = await harness.dump()

    with pytest.raises(InvalidTask) as caught:
        await lease.complete(bad)

    assert caught.value.field.startswith("result")
    assert await harness.dump() == before
    await lease.complete("good")


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 366 * 24 * 3600.0, -1.0])
async def test_a_park_lasts_at_most_a_year(harness: Harness, seconds: float) -> None:
    lease = await harness.running()
    before = await harness.dump()

    with pytest.raises(InvalidTask) as caught:
        await lease.park(seconds)

    assert caught.value.field == "seconds"
    assert await harness.dump() == before
