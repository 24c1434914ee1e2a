"""A lease by hand: every move of its holder, and what a holder that lost it may not do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import InvalidTask, LeaseLost, WrongState
from tests.house import House, opened


async def test_the_whole_way_of_a_task(house: House) -> None:
    lease = await house.claimed()

    await lease.start()
    started = await house.task(lease.id)
    await lease.renew()
    await lease.validate()
    validating = await house.task(lease.id)
    await lease.complete({"ok": True})
    completed = await house.task(lease.id)

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
async def test_a_lost_lease_changes_nothing(house: House, move: str, since: str) -> None:
    lease = await house.running()
    await house.age(lease, 120)
    await house.reaper.tick()
    if since == "given to another":
        await house.queue.run_now(lease.id)
        (other,) = await house.queue.claim(worker="w2")
        await other.start()
    elif since == "cancelled":
        await house.queue.cancel(lease.id)
    else:
        await house.queue.run_now(lease.id)
        (other,) = await house.queue.claim(worker="w2")
        await other.fail("error", "no", permanent=True)
    before = await tasks_of(house)

    with pytest.raises(LeaseLost) as caught:
        await MOVES[move](lease)

    assert (caught.value.task, caught.value.token) == (lease.id, lease.token)
    assert lease.token not in str(caught.value)
    assert await tasks_of(house) == before


async def tasks_of(house: House) -> dict[str, Any]:
    """Every key but the one that says when workers were heard."""
    found = await house.dump()
    found.pop(house.keys.workers())
    return found


@pytest.mark.parametrize("move", ["validate", "complete", "park"])
async def test_what_was_not_started_cannot_go_on(house: House, move: str) -> None:
    lease = await house.claimed()
    before = await house.dump()

    with pytest.raises(WrongState) as caught:
        await MOVES[move](lease)

    assert (caught.value.task, caught.value.found) == (lease.id, "CLAIMED")
    assert "RUNNING" in caught.value.wanted
    assert await house.dump() == before


async def test_what_is_being_checked_cannot_start_again(house: House) -> None:
    lease = await house.running()
    await lease.validate()

    with pytest.raises(WrongState):
        await lease.start()


async def test_a_released_task_is_ready_at_its_old_place(house: House) -> None:
    first = await house.running()
    second = await house.queue.enqueue("code")

    await first.release()

    task = await house.task(first.id)
    assert (task.state, task.attempts) == (State.READY, 0)
    leases = await house.queue.claim(worker="w2", n=2)
    assert [lease.id for lease in leases] == [first.id, second.id]
    assert leases[0].task.epoch == 2


async def test_a_parked_task_waits_and_spends_nothing(house: House) -> None:
    lease = await house.running(max_attempts=1)

    await lease.park(60)

    task = await house.task(lease.id)
    assert (task.state, task.attempts) == (State.RETRYING, 0)
    assert task.failure_reason == "rate_limit"
    assert task.retry_at is not None
    assert await house.queue.claim(worker="w2") == []
    assert await house.queue.run_now(lease.id) is True
    assert len(await house.queue.claim(worker="w2")) == 1


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(("asked", "wait"), [(90.0, 90), (None, 60), (1e308, 365 * 86_400)])
async def test_by_hand_a_limited_task_is_set_aside_as_a_workers_is(
    house: House, begun: bool, asked: float | None, wait: float
) -> None:
    lease = await (house.running if begun else house.claimed)(max_attempts=1)

    state = await lease.fail("rate_limit", "429", retry_after=asked)

    task = await house.task(lease.id)
    assert (state, task.state) == (State.RETRYING, State.RETRYING)
    assert (task.attempts, task.parks, task.failure_history) == (0, 1, ())
    assert task.available_at is not None
    assert wait <= (task.available_at - task.created_at).total_seconds() < wait * 1.1 + 15
    (slow,) = await house.queue.slowdowns()
    rest = (slow.over_at - slow.until).total_seconds()
    assert min(wait / 2, 3600) <= rest <= min(wait / 2 * 1.1, 3600)


async def test_each_time_without_a_time_is_longer_by_hand_too(house: House) -> None:
    lease = await house.running()
    await house.client.hset(house.keys.task(lease.id.ulid), "parks", 3)

    await lease.fail("rate_limit")

    task = await house.task(lease.id)
    assert task.available_at is not None
    assert 480 <= (task.available_at - task.created_at).total_seconds() < 540


async def test_set_aside_too_often_by_hand_it_fails_and_says_so_again(server: Any) -> None:
    async with opened(server, max_rate_limit_parks=0) as house:
        lease = await house.running(max_attempts=1)

        states = [await lease.fail("rate_limit", "429", retry_after=5) for _ in range(2)]

        task = await house.task(lease.id)
        assert states == [State.DEAD_LETTERED] * 2
        assert (task.attempts, task.parks, task.last_error) == (1, 0, "429")


@pytest.mark.parametrize("how", ["counts", "permanent"])
async def test_where_it_counts_or_is_permanent_it_fails_by_hand(server: Any, how: str) -> None:
    async with opened(server, rate_limit_counts=how == "counts") as house:
        lease = await house.running()

        await lease.fail("rate_limit", "429", retry_after=5, permanent=how == "permanent")

        task = await house.task(lease.id)
        assert (task.attempts, task.parks) == (1, 0)
        assert await house.queue.slowdowns() == []


async def test_a_lost_lease_sets_nothing_aside(house: House) -> None:
    lease = await house.running()
    await lease.release()
    before = await house.dump()

    with pytest.raises(LeaseLost):
        await lease.fail("rate_limit", retry_after=5)

    assert await house.dump() == before


async def test_a_reason_that_is_none_changes_nothing(house: House) -> None:
    lease = await house.running()
    before = await house.dump()

    for call in (lease.fail("boredom"), lease.park(1, "boredom")):
        with pytest.raises(InvalidTask, match="reason: 'boredom' is not one of timeout, crash, "):
            await call

    assert await house.dump() == before


HOSTILE = ("x" * 100_000, "a\0b", "lone \ud800", "line\nline \x1b[31m", "")


@pytest.mark.parametrize("message", HOSTILE)
async def test_any_error_text_can_be_kept(house: House, message: str) -> None:
    lease = await house.running()

    assert await lease.fail("error", message) is State.RETRYING

    kept = (await house.task(lease.id)).last_error
    assert kept is not None
    assert len(kept) <= 8192
    assert "\0" not in kept
    assert kept.encode().decode() == kept


@pytest.mark.parametrize("bad", [float("nan"), "a\0b", "\ud800", 2**63, {1: 2}, "x" * 262_145])
async def test_a_bad_result_is_refused_and_the_lease_stays(house: House, bad: Any) -> None:
    lease = await house.running()
    before = await house.dump()

    with pytest.raises(InvalidTask) as caught:
        await lease.complete(bad)

    assert caught.value.field.startswith("result")
    assert await house.dump() == before
    await lease.complete("good")


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 366 * 24 * 3600.0, -1.0])
async def test_a_park_is_from_now_to_a_year(house: House, seconds: float) -> None:
    lease = await house.running()
    before = await house.dump()

    with pytest.raises(InvalidTask) as caught:
        await lease.park(seconds)

    assert caught.value.field == "seconds"
    assert await house.dump() == before
