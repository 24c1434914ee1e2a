"""What a run says it has cost: paid from what was set aside, and too much ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import BudgetExceeded, InvalidTask, LeaseLost
from rqueue.model.note import Note
from rqueue.store.leases import Held
from rqueue.store.notes import note
from tests.house import House
from tests.lua.budget.purse import account, claimed, costing, dag_account
from tests.lua.budget.test_dag_budgets import planted
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything, pttl


async def say(house: House, lease: Lease, usd: float, seq: int = 1) -> None:
    held = Held(lease.id.ulid, lease.token)
    await note(house.queue.shard, held, Note(usd=usd), seq=seq)


async def running(house: House, **options: Any) -> Lease:
    await house.queue.enqueue("code", {}, **options)
    (lease,) = await claimed(house)
    await lease.start()
    return lease


async def test_what_is_spent_was_set_aside(house: House) -> None:
    await house.queue.set_budget(5.0, worker="w1")
    lease = await running(house, estimated_cost_usd=0.5)

    await say(house, lease, 0.2)
    assert await account(house) == {"spent": 200_000, "reserved": 300_000}
    await say(house, lease, 0.4, seq=2)
    assert await account(house) == {"spent": 600_000, "reserved": 0}
    await lease.complete()

    assert await account(house) == {"spent": 600_000, "reserved": 0}
    assert await account(house, "worker=w1") == {"spent": 600_000, "reserved": 0}


async def test_a_dag_pays_its_tasks(house: House) -> None:
    dag, _ = await planted(house, 0.5, budget=1.0)
    (lease,) = await claimed(house)
    await lease.start()

    await say(house, lease, 0.2)
    assert await dag_account(house, dag) == {"spent": 200_000, "reserved": 300_000}
    await lease.complete()

    assert await dag_account(house, dag) == {"spent": 200_000, "reserved": 0}


async def test_a_note_sent_again_is_paid_once(house: House) -> None:
    lease = await running(house, estimated_cost_usd=0.5)
    await say(house, lease, 0.2)
    before = await everything(house)

    await say(house, lease, 0.2)

    assert await everything(house) == before


async def test_a_task_that_costs_more_than_it_may_is_told_each_time(house: House) -> None:
    lease = await running(house, max_cost_usd=0.5)
    await say(house, lease, 0.5)

    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await say(house, lease, 0.01, seq=2)

    assert (await house.task(lease.id)).cost_usd == pytest.approx(0.51)


async def test_an_estimate_is_no_limit(house: House) -> None:
    lease = await running(house, estimated_cost_usd=0.5)

    await say(house, lease, 50.0)

    assert (await house.task(lease.id)).cost_usd == 50


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_a_run_that_overdraws_an_account_is_told(house: House, worker: str | None) -> None:
    await house.queue.set_budget(1.0, worker=worker)
    lease = await running(house)
    await say(house, lease, 1.0)

    with pytest.raises(BudgetExceeded):
        await say(house, lease, 0.000001, seq=2)


async def test_a_run_that_overdraws_its_dag_is_told(house: House) -> None:
    await planted(house, 0.5, budget=0.7)
    (lease,) = await claimed(house)
    await lease.start()

    with pytest.raises(BudgetExceeded):
        await say(house, lease, 0.8)


async def test_a_run_within_what_was_set_aside_pays_for_nobody_else(house: House) -> None:
    await house.queue.set_budget(1.0)
    good = await running(house, estimated_cost_usd=0.5)
    bad = await running(house, estimated_cost_usd=0.1)
    with pytest.raises(BudgetExceeded):
        await say(house, bad, 5.0)

    await say(house, good, 0.5)


async def test_a_new_life_has_its_own_limit(house: House) -> None:
    lease = await running(house, max_cost_usd=0.5, max_attempts=1)
    await say(house, lease, 0.5)
    await lease.fail()
    await house.queue.revive(lease.id)
    (again,) = await claimed(house)
    await again.start()

    await say(house, again, 0.5)
    with pytest.raises(BudgetExceeded):
        await say(house, again, 0.1, seq=2)


async def lives_again(house: House, lease: Lease) -> Lease:
    """Another run of a task that was lost, died and was revived."""
    await house.age(lease, 3600)
    await house.reaper.tick()
    assert (await house.task(lease.id)).state == "DEAD_LETTERED"
    await house.queue.revive(lease.id)
    (again,) = await claimed(house)
    await again.start()
    return again


@pytest.mark.parametrize("before", [0.0, 0.1])
async def test_a_run_of_a_life_before_is_late_and_leaves_this_one_its_limit(
    house: House, before: float
) -> None:
    await house.reaper.tick()
    lease = await running(house, max_cost_usd=0.5, max_attempts=1)
    if before:
        await say(house, lease, before)
    again = await lives_again(house, lease)
    await say(house, again, 0.4)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(house, lease, 0.45, seq=2)
    await say(house, again, 0.1, seq=2)

    total = before + 0.45 + 0.5
    assert (await account(house))["spent"] == round(total * 1_000_000)
    assert (await house.task(lease.id)).cost_usd == pytest.approx(total)
    with pytest.raises(BudgetExceeded):
        await say(house, again, 0.1, seq=3)


async def test_a_late_run_of_this_life_counts_against_it(house: House) -> None:
    await house.reaper.tick()
    first = await running(house, max_cost_usd=0.5, max_attempts=2)
    await house.age(first, 3600)
    await house.reaper.tick()
    await house.make_due(first.id)
    await house.promoter.tick()
    (second,) = await claimed(house)
    await second.start()

    with pytest.raises(LeaseLost):
        await say(house, first, 0.45)

    with pytest.raises(BudgetExceeded):
        await say(house, second, 0.1)


async def test_runs_of_two_lives_before_are_both_late(house: House) -> None:
    await house.reaper.tick()
    first = await running(house, max_cost_usd=0.5, max_attempts=1)
    second = await lives_again(house, first)
    third = await lives_again(house, second)

    for lease in (first, second):
        with pytest.raises(LeaseLost):
            await say(house, lease, 0.5)
    await say(house, third, 0.5)

    assert (await account(house))["spent"] == 1_500_000


async def timed_out(house: House, lease: Lease) -> None:
    """Its time is up, and a renewal says so."""
    await house.client.hset(house.keys.task(lease.id.ulid), "holder", "1 1 w1")
    with pytest.raises(LeaseLost):
        await lease.renew()


async def suspended(house: House, lease: Lease) -> None:
    assert "SUSPENDED" in await spawn(house, lease, [row("k")], wait="success")


LEFT: dict[str, Callable[[House, Lease], Awaitable[object]]] = {
    "timed out": timed_out,
    "failed": lambda _, lease: lease.fail(),
    "dead": lambda _, lease: lease.fail(permanent=True),
    "released": lambda _, lease: lease.release(),
    "suspended": suspended,
}


@pytest.mark.parametrize("how", LEFT)
async def test_a_run_whose_own_worker_gave_it_up_says_once_what_it_cost(
    house: House, how: str
) -> None:
    lease = await running(house, estimated_cost_usd=0.5)
    await say(house, lease, 0.1)
    await LEFT[how](house, lease)

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(house, lease, 0.1)
        with pytest.raises(LeaseLost):
            await say(house, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await say(house, lease, 7.0, seq=3)

    assert await account(house) == {"spent": 400_000, "reserved": 0}
    assert (await house.task(lease.id)).cost_usd == pytest.approx(0.4)


@pytest.mark.parametrize("how", ["failed", "released"])
async def test_what_was_never_begun_has_cost_nothing(house: House, how: str) -> None:
    await house.queue.enqueue("code", {})
    (lease,) = await claimed(house)
    await LEFT[how](house, lease)

    with pytest.raises(LeaseLost):
        await say(house, lease, 0.3)

    assert (await house.task(lease.id)).cost_usd == 0


@pytest.mark.parametrize("lost", ["cancelled", "reaped", "reaped and claimed by another"])
async def test_a_run_that_was_lost_says_once_what_it_cost(house: House, lost: str) -> None:
    lease = await running(house, estimated_cost_usd=0.5)
    await say(house, lease, 0.1)
    if lost == "cancelled":
        await house.queue.cancel(lease.id)
    else:
        await house.age(lease, 3600)
        await house.reaper.tick()
    if lost.endswith("another"):
        await house.make_due(lease.id)
        await house.promoter.tick()
        assert len(await claimed(house, worker="w2")) == 1

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await say(house, lease, 0.3, seq=2)
        with pytest.raises(LeaseLost):
            await say(house, lease, 7.0, seq=3)

    assert (await account(house))["spent"] == 400_000
    assert (await house.task(lease.id)).cost_usd == pytest.approx(0.4)


async def test_a_late_run_is_told_what_is_counted_however_often_it_says_so(house: House) -> None:
    lease = await running(house)
    await house.queue.cancel(lease.id)

    counted = []
    for usd, seq in [(0.0, 1), (0.3, 2), (0.3, 2), (0.1, 3), (0.3, 2)]:
        with pytest.raises(LeaseLost) as lost:
            await say(house, lease, usd, seq=seq)
        counted.append(lost.value.counted)

    assert counted == [False, True, True, False, True]
    assert (await account(house))["spent"] == 300_000


async def test_a_note_that_was_heard_before_the_loss_is_no_debt(house: House) -> None:
    lease = await running(house)
    await say(house, lease, 0.1)
    await house.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await say(house, lease, 0.1)

    assert (await account(house))["spent"] == 100_000


async def test_what_a_stranger_says_it_cost_is_not_heard(house: House) -> None:
    lease = await running(house)
    await house.queue.cancel(lease.id)
    before = await everything(house)

    with pytest.raises(LeaseLost):
        await note(house.queue.shard, Held(lease.id.ulid, "1:other"), Note(usd=9), seq=9)

    assert await everything(house) == before


async def test_late_notes_are_kept_as_long_as_their_task(house: House) -> None:
    lease = await running(house)
    await house.queue.cancel(lease.id)

    with pytest.raises(LeaseLost):
        await say(house, lease, 0.1)

    assert 0 < await pttl(house, f"notes:{lease.id.ulid}") <= 86_400_000


@pytest.mark.parametrize(
    "wrong", [{"usd": -0.1}, {"usd": float("nan")}, {"usd": 1e9}, {"tokens_in": -1}]
)
async def test_what_is_no_cost_is_refused(house: House, wrong: dict[str, Any]) -> None:
    lease = await running(house)
    before = await everything(house)

    held = Held(lease.id.ulid, lease.token)
    with pytest.raises(InvalidTask):
        await note(house.queue.shard, held, Note(**wrong), seq=1)

    assert await everything(house) == before


async def test_accounts_are_no_floats(house: House) -> None:
    await house.queue.set_budget(0.3)
    for usd in (0.1, 0.1, 0.1):
        await costing(house, usd)

    leases = await claimed(house)
    for lease in leases:
        await lease.start()
        await say(house, lease, 0.1)
        await lease.complete()

    assert len(leases) == 3
    assert (await house.queue.budgets()).day.remaining_usd == 0


async def test_what_was_set_aside_in_broken_bytes_is_nothing(house: House) -> None:
    lease = await running(house, estimated_cost_usd=0.5)
    await house.client.hset(house.keys.task(lease.id.ulid), "reserved", "x")

    await say(house, lease, 0.2)
    await lease.complete()

    assert (await account(house))["spent"] == 200_000
