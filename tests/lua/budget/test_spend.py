"""The reported cost of a run uses its reservation; a run that exceeds its limit must end."""

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
from tests.lua.budget.accounts import account, claimed, costing, dag_account
from tests.lua.budget.test_dag_budgets import dag_of_tasks
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything, pttl


async def report(harness: Harness, lease: Lease, usd: float, seq: int = 1) -> None:
    held = HeldLease(lease.id.ulid, lease.token)
    await note(harness.queue._internals.shard, held, Note(usd=usd), seq=seq)


async def running(harness: Harness, **options: Any) -> Lease:
    await harness.queue.enqueue("code", {}, **options)
    (lease,) = await claimed(harness)
    await lease.start()
    return lease


async def test_a_reported_cost_uses_the_reservation(harness: Harness) -> None:
    await harness.queue.budgets.set(5.0, worker="w1")
    lease = await running(harness, estimated_cost_usd=0.5)

    await report(harness, lease, 0.2)
    assert await account(harness) == {"spent": 200_000, "reserved": 300_000}
    await report(harness, lease, 0.4, seq=2)
    assert await account(harness) == {"spent": 600_000, "reserved": 0}
    await lease.complete()

    assert await account(harness) == {"spent": 600_000, "reserved": 0}
    assert await account(harness, "worker=w1") == {"spent": 600_000, "reserved": 0}


async def test_the_cost_of_a_task_counts_for_its_dag(harness: Harness) -> None:
    dag, _ = await dag_of_tasks(harness, 0.5, budget=1.0)
    (lease,) = await claimed(harness)
    await lease.start()

    await report(harness, lease, 0.2)
    assert await dag_account(harness, dag) == {"spent": 200_000, "reserved": 300_000}
    await lease.complete()

    assert await dag_account(harness, dag) == {"spent": 200_000, "reserved": 0}


async def test_a_repeated_note_is_counted_once(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await report(harness, lease, 0.2)
    before = await everything(harness)

    await report(harness, lease, 0.2)

    assert await everything(harness) == before


async def test_a_task_above_its_cost_limit_gets_budget_exceeded_each_time(harness: Harness) -> None:
    lease = await running(harness, max_cost_usd=0.5)
    await report(harness, lease, 0.5)

    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await report(harness, lease, 0.01, seq=2)

    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.51)


async def test_an_estimate_is_no_limit(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)

    await report(harness, lease, 50.0)

    assert (await harness.task(lease.id)).cost_usd == 50


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_a_run_that_overdraws_an_account_gets_budget_exceeded(
    harness: Harness, worker: str | None
) -> None:
    await harness.queue.budgets.set(1.0, worker=worker)
    lease = await running(harness)
    await report(harness, lease, 1.0)

    with pytest.raises(BudgetExceeded):
        await report(harness, lease, 0.000001, seq=2)


async def test_a_run_that_overdraws_its_dag_gets_budget_exceeded(harness: Harness) -> None:
    await dag_of_tasks(harness, 0.5, budget=0.7)
    (lease,) = await claimed(harness)
    await lease.start()

    with pytest.raises(BudgetExceeded):
        await report(harness, lease, 0.8)


async def test_a_run_within_its_reservation_is_not_ended_for_other_runs(harness: Harness) -> None:
    await harness.queue.budgets.set(1.0)
    good = await running(harness, estimated_cost_usd=0.5)
    bad = await running(harness, estimated_cost_usd=0.1)
    with pytest.raises(BudgetExceeded):
        await report(harness, bad, 5.0)

    await report(harness, good, 0.5)


async def test_a_new_life_has_its_own_cost_limit(harness: Harness) -> None:
    lease = await running(harness, max_cost_usd=0.5, max_attempts=1)
    await report(harness, lease, 0.5)
    await lease.fail()
    await harness.queue.dead.retry(lease.id)
    (again,) = await claimed(harness)
    await again.start()

    await report(harness, again, 0.5)
    with pytest.raises(BudgetExceeded):
        await report(harness, again, 0.1, seq=2)


async def retried_run(harness: Harness, lease: Lease) -> Lease:
    """Another run of a task that was lost, died and was retried."""
    await harness.age(lease, 3600)
    await harness.reaper.tick()
    assert (await harness.task(lease.id)).state == "DEAD_LETTERED"
    await harness.queue.dead.retry(lease.id)
    (again,) = await claimed(harness)
    await again.start()
    return again


@pytest.mark.parametrize("before", [0.0, 0.1])
async def test_the_late_cost_of_an_earlier_life_does_not_count_against_the_limit(
    harness: Harness, before: float
) -> None:
    await harness.reaper.tick()
    lease = await running(harness, max_cost_usd=0.5, max_attempts=1)
    if before:
        await report(harness, lease, before)
    again = await retried_run(harness, lease)
    await report(harness, again, 0.4)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await report(harness, lease, 0.45, seq=2)
    await report(harness, again, 0.1, seq=2)

    total = before + 0.45 + 0.5
    assert (await account(harness))["spent"] == round(total * 1_000_000)
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(total)
    with pytest.raises(BudgetExceeded):
        await report(harness, again, 0.1, seq=3)


async def test_the_late_cost_of_this_life_counts_against_the_limit(harness: Harness) -> None:
    await harness.reaper.tick()
    first = await running(harness, max_cost_usd=0.5, max_attempts=2)
    await harness.age(first, 3600)
    await harness.reaper.tick()
    await harness.make_due(first.id)
    await harness.promoter.tick()
    (second,) = await claimed(harness)
    await second.start()

    with pytest.raises(LeaseLost):
        await report(harness, first, 0.45)

    with pytest.raises(BudgetExceeded):
        await report(harness, second, 0.1)


async def test_runs_of_two_earlier_lives_are_both_late(harness: Harness) -> None:
    await harness.reaper.tick()
    first = await running(harness, max_cost_usd=0.5, max_attempts=1)
    second = await retried_run(harness, first)
    third = await retried_run(harness, second)

    for lease in (first, second):
        with pytest.raises(LeaseLost):
            await report(harness, lease, 0.5)
    await report(harness, third, 0.5)

    assert (await account(harness))["spent"] == 1_500_000


async def timed_out(harness: Harness, lease: Lease) -> None:
    """Lets a task exceed its timeout, which a renewal reports."""
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
async def test_a_run_that_its_worker_ended_reports_its_cost_once(
    harness: Harness, how: str
) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await report(harness, lease, 0.1)
    await LEFT[how](harness, lease)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await report(harness, lease, 0.1)
        with pytest.raises(LeaseLost):
            await report(harness, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await report(harness, lease, 7.0, seq=3)

    assert await account(harness) == {"spent": 400_000, "reserved": 0}
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.4)


@pytest.mark.parametrize("how", ["failed", "released"])
async def test_a_task_that_never_started_reports_no_cost(harness: Harness, how: str) -> None:
    await harness.queue.enqueue("code", {})
    (lease,) = await claimed(harness)
    await LEFT[how](harness, lease)

    with pytest.raises(LeaseLost):
        await report(harness, lease, 0.3)

    assert (await harness.task(lease.id)).cost_usd == 0


@pytest.mark.parametrize("lost", ["cancelled", "reaped", "reaped and claimed by another"])
async def test_a_lost_run_reports_its_cost_once(harness: Harness, lost: str) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await report(harness, lease, 0.1)
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
            await report(harness, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await report(harness, lease, 7.0, seq=3)

    assert (await account(harness))["spent"] == 400_000
    assert (await harness.task(lease.id)).cost_usd == pytest.approx(0.4)


async def test_a_repeated_late_note_gets_the_same_reply(
    harness: Harness,
) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)

    counted = []
    for usd, seq in [(0.0, 1), (0.3, 2), (0.3, 2), (0.1, 3), (0.3, 2)]:
        with pytest.raises(LeaseLost) as lost:
            await report(harness, lease, usd, seq=seq)
        counted.append(lost.value.counted)

    assert counted == [False, True, True, False, True]
    assert (await account(harness))["spent"] == 300_000


async def test_a_note_that_was_stored_before_the_loss_is_not_counted_again(
    harness: Harness,
) -> None:
    lease = await running(harness)
    await report(harness, lease, 0.1)
    await harness.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await report(harness, lease, 0.1)

    assert (await account(harness))["spent"] == 100_000


async def test_a_cost_under_an_unknown_token_is_not_counted(harness: Harness) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)
    before = await everything(harness)

    with pytest.raises(LeaseLost):
        await note(
            harness.queue._internals.shard, HeldLease(lease.id.ulid, "1:other"), Note(usd=9), seq=9
        )

    assert await everything(harness) == before


async def test_late_notes_expire_with_their_task(harness: Harness) -> None:
    lease = await running(harness)
    await harness.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await report(harness, lease, 0.1)

    assert 0 < await pttl(harness, f"notes:{lease.id.ulid}") <= 86_400_000


@pytest.mark.parametrize(
    "wrong", [{"usd": -0.1}, {"usd": float("nan")}, {"usd": 1e9}, {"tokens_in": -1}]
)
async def test_an_invalid_cost_is_refused(harness: Harness, wrong: dict[str, Any]) -> None:
    lease = await running(harness)
    before = await everything(harness)

    held = HeldLease(lease.id.ulid, lease.token)
    with pytest.raises(InvalidTask):
        await note(harness.queue._internals.shard, held, Note(**wrong), seq=1)

    assert await everything(harness) == before


async def test_accounts_are_whole_micro_usd(harness: Harness) -> None:
    await harness.queue.budgets.set(0.3)
    for usd in (0.1, 0.1, 0.1):
        await costing(harness, usd)

    leases = await claimed(harness)
    for lease in leases:
        await lease.start()
        await report(harness, lease, 0.1)
        await lease.complete()

    assert len(leases) == 3
    assert (await harness.queue.budgets.list()).day.remaining_usd == 0


async def test_an_unreadable_reservation_counts_as_none(harness: Harness) -> None:
    lease = await running(harness, estimated_cost_usd=0.5)
    await harness.client.hset(harness.keys.task(lease.id.ulid), "reserved", "x")

    await report(harness, lease, 0.2)
    await lease.complete()

    assert (await account(harness))["spent"] == 200_000
