"""What a run says it has cost: paid from what was set aside, and too much ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.leases import HeldLease
from rqueue.core.notes import note
from rqueue.errors import BudgetExceeded, InvalidTask, LeaseLost
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.budget.purse import account, claimed, costing, dag_account
from tests.lua.budget.test_dag_budgets import planted
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything, pttl


async def say(harness: Harness, lease: Lease, usd: float, seq: int = 1) -> None:
    held = HeldLease(lease.id.ulid, lease.token)
    await note(harness.queue._internals.shard, held, Note(usd=usd), seq=seq)


async def running(harness: Harness, **options: Any) -> Lease:
    await harness.queue.enqueue("code", {}, **options)
    (lease,) = await claimed(harness)
    await lease.start()
    return lease


async def test_what_is_spent_was_set_aside(harness: Harness) -> None:
    await harness.queue.budgets.set(5.0, worker="w1")
    lease = await running(harness, estimated_cost_usd=0.5)

    await say(harness, lease, 0.2)
    assert await account(harness) == {"spent": 200_000, "reserved": 300_000}
    await say(harness, lease, 0.4, seq=2)
    assert await account(harness) == {"spent": 600_000, "reserved": 0}
    await lease.complete()

    assert await account(harness) == {"spent": 600_000, "reserved": 0}
    assert await account(harness, "worker=w1") == {"spent": 600_000, "reserved": 0}


async def test_a_dag_pays_its_tasks(harness: Harness) -> None:
    dag, _ = await planted(harness, 0.5, budget=1.0)
    (lease,) = await claimed(harness)
    await lease.start()

    await say(harness, lease, 0.2)
    assert await dag_account(harness, dag) == {"spent": 200_000, "reserved": 300_000}
    await lease.complete()

    assert await dag_account(harness, dag) == {"spent": 200_000, "reserved": 0}


async def test_a_note_sent_again_is_paid_once(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await say(harness, lease, 0.2)
    before = await everything(harness)

    await say(harness, lease, 0.2)

    assert await everything(harness) == before


async def test_a_task_that_costs_more_than_it_may_is_told_each_time(harness: Harness) -> None:
    lease = await running(harness, max_cost_usd=0.5)
    await say(harness, lease, 0.5)

    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await say(harness, lease, 0.01, seq=2)

    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.51)


async def test_an_estimate_is_no_limit(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)

    await say(harness, lease, 50.0)

    assert (await harness.task(lease.id)).cost_usd == 50


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_a_run_that_overdraws_an_account_is_told(
    harness: Harness, worker: str | None
) -> None:
    await harness.queue.budgets.set(1.0, worker=worker)
    lease = await running(harness)
    await say(harness, lease, 1.0)

    with pytest.raises(BudgetExceeded):
        await say(harness, lease, 0.000001, seq=2)


async def test_a_run_that_overdraws_its_dag_is_told(harness: Harness) -> None:
    await planted(harness, 0.5, budget=0.7)
    (lease,) = await claimed(harness)
    await lease.start()

    with pytest.raises(BudgetExceeded):
        await say(harness, lease, 0.8)


async def test_a_run_within_what_was_set_aside_pays_for_nobody_else(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    good = await running(harness, estimated_cost_usd=0.5)
    bad = await running(harness, estimated_cost_usd=0.1)
    with pytest.raises(BudgetExceeded):
        await say(harness, bad, 5.0)

    await say(harness, good, 0.5)


async def test_a_new_life_has_its_own_limit(harness: Harness) -> None:
    lease = await running(harness, max_cost_usd=0.5, max_attempts=1)
    await say(harness, lease, 0.5)
    await lease.fail()
    await harness.queue.dead.retry(lease.id)
    (again,) = await claimed(harness)
    await again.start()

    await say(harness, again, 0.5)
    with pytest.raises(BudgetExceeded):
        await say(harness, again, 0.1, seq=2)


async def lives_again(harness: Harness, lease: Lease) -> Lease:
    """Another run of a task that was lost, died and was revived."""
    await harness.age(lease, 3600)
    await harness.reaper.tick()
    assert (await harness.task(lease.id)).state == "DEAD_LETTERED"
    await harness.queue.dead.retry(lease.id)
    (again,) = await claimed(harness)
    await again.start()
    return again


@pytest.mark.parametrize("before", [0.0, 0.1])
async def test_a_run_of_a_life_before_is_late_and_leaves_this_one_its_limit(
    harness: Harness, before: float
) -> None:
    await harness.reaper.tick()
    lease = await running(harness, max_cost_usd=0.5, max_attempts=1)
    if before:
        await say(harness, lease, before)
    again = await lives_again(harness, lease)
    await say(harness, again, 0.4)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(harness, lease, 0.45, seq=2)
    await say(harness, again, 0.1, seq=2)

    total = before + 0.45 + 0.5
    assert (await account(harness))["spent"] == round(total * 1_000_000)
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(total)
    with pytest.raises(BudgetExceeded):
        await say(harness, again, 0.1, seq=3)


async def test_a_late_run_of_this_life_counts_against_it(harness: Harness) -> None:
    await harness.reaper.tick()
    first = await running(harness, max_cost_usd=0.5, max_attempts=2)
    await harness.age(first, 3600)
    await harness.reaper.tick()
    await harness.make_due(first.id)
    await harness.promoter.tick()
    (second,) = await claimed(harness)
    await second.start()

    with pytest.raises(LeaseLost):
        await say(harness, first, 0.45)

    with pytest.raises(BudgetExceeded):
        await say(harness, second, 0.1)


async def test_runs_of_two_lives_before_are_both_late(harness: Harness) -> None:
    await harness.reaper.tick()
    first = await running(harness, max_cost_usd=0.5, max_attempts=1)
    second = await lives_again(harness, first)
    third = await lives_again(harness, second)

    for lease in (first, second):
        with pytest.raises(LeaseLost):
            await say(harness, lease, 0.5)
    await say(harness, third, 0.5)

    assert (await account(harness))["spent"] == 1_500_000


async def timed_out(harness: Harness, lease: Lease) -> None:
    """Its time is up, and a renewal says so."""
    await harness.client.hset(harness.keys.task(lease.id.ulid), "holder", "1 1 w1")
    with pytest.raises(LeaseLost):
        await lease.renew()


async def suspended(harness: Harness, lease: Lease) -> None:
    assert "SUSPENDED" in await spawn(harness, lease, [row("k")], wait="success")


LEFT: dict[str, Callable[[Harness, Lease], Awaitable[object]]] = {
    "timed out": timed_out,
    "failed": lambda _, lease: lease.fail(),
    "dead": lambda _, lease: lease.fail(permanent=True),
    "released": lambda _, lease: lease.release(),
    "suspended": suspended,
}


@pytest.mark.parametrize("how", LEFT)
async def test_a_run_whose_own_worker_gave_it_up_says_once_what_it_cost(
    harness: Harness, how: str
) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await say(harness, lease, 0.1)
    await LEFT[how](harness, lease)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(harness, lease, 0.1)
        with pytest.raises(LeaseLost):
            await say(harness, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await say(harness, lease, 7.0, seq=3)

    assert await account(harness) == {"spent": 400_000, "reserved": 0}
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.4)


@pytest.mark.parametrize("how", ["failed", "released"])
async def test_what_was_never_begun_has_cost_nothing(harness: Harness, how: str) -> None:
    await harness.queue.enqueue("code", {})
    (lease,) = await claimed(harness)
    await LEFT[how](harness, lease)

    with pytest.raises(LeaseLost):
        await say(harness, lease, 0.3)

    assert (await harness.task(lease.id)).cost_usd == 0


@pytest.mark.parametrize("lost", ["cancelled", "reaped", "reaped and claimed by another"])
async def test_a_run_that_was_lost_says_once_what_it_cost(harness: Harness, lost: str) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await say(harness, lease, 0.1)
    if lost == "cancelled":
        await harness.queue.cancel(lease.id)
    else:
        await harness.age(lease, 3600)
        await harness.reaper.tick()
    if lost.endswith("another"):
        await harness.make_due(lease.id)
        await harness.promoter.tick()
        assert len(await claimed(harness, worker="w2")) == 1

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(harness, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await say(harness, lease, 7.0, seq=3)

    assert (await account(harness))["spent"] == 400_000
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.4)


async def test_a_late_run_is_told_what_is_counted_however_often_it_says_so(
    harness: Harness,
) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)

    counted = []
    for usd, seq in [(0.0, 1), (0.3, 2), (0.3, 2), (0.1, 3), (0.3, 2)]:
        with pytest.raises(LeaseLost) as lost:
            await say(harness, lease, usd, seq=seq)
        counted.append(lost.value.counted)

    assert counted == [False, True, True, False, True]
    assert (await account(harness))["spent"] == 300_000


async def test_a_note_that_was_heard_before_the_loss_is_no_debt(harness: Harness) -> None:
    lease = await running(harness)
    await say(harness, lease, 0.1)
    await harness.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await say(harness, lease, 0.1)

    assert (await account(harness))["spent"] == 100_000


async def test_what_a_stranger_says_it_cost_is_not_heard(harness: Harness) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)
    before = await everything(harness)

    with pytest.raises(LeaseLost):
        await note(
            harness.queue._internals.shard, HeldLease(lease.id.ulid, "1:other"), Note(usd=9), seq=9
        )

    assert await everything(harness) == before


async def test_late_notes_are_kept_as_long_as_their_task(harness: Harness) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await say(harness, lease, 0.1)

    assert 0 < await pttl(harness, f"notes:{lease.id.ulid}") <= 86_400_000


@pytest.mark.parametrize(
    "wrong", [{"usd": -0.1}, {"usd": float("nan")}, {"usd": 1e9}, {"tokens_in": -1}]
)
async def test_what_is_no_cost_is_refused(harness: Harness, wrong: dict[str, Any]) -> None:
    lease = await running(harness)
    before = await everything(harness)

    held = HeldLease(lease.id.ulid, lease.token)
    with pytest.raises(InvalidTask):
        await note(harness.queue._internals.shard, held, Note(**wrong), seq=1)

    assert await everything(harness) == before


async def test_accounts_are_no_floats(harness: Harness) -> None:
    await harness.queue.budgets.set(0.3)
    for usd in (0.1, 0.1, 0.1):
        await costing(harness, usd)

    leases = await claimed(harness)
    for lease in leases:
        await lease.start()
        await say(harness, lease, 0.1)
        await lease.complete()

    assert len(leases) == 3
    assert (await harness.queue.budgets.list()).day.remaining_usd == 0


async def test_what_was_set_aside_in_broken_bytes_is_nothing(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await harness.client.hset(harness.keys.task(lease.id.ulid), "reserved", "x")

    await say(harness, lease, 0.2)
    await lease.complete()

    assert (await account(harness))["spent"] == 200_000
