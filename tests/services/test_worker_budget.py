"""A run that costs more than it may ends, whatever its handler does; and a late one still tells."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import BudgetExceeded, ConfigError
from rqueue.services.gathering import Watched, gather_queues
from tests.client.until import until
from tests.house import House
from tests.services.working import ended, working


async def test_an_overrun_ends_the_task_without_a_retry(house: House) -> None:
    @house.queue.task("dear", max_cost_usd=0.5)
    async def dear(ctx: Context) -> None:
        await ctx.spend(0.6)

    async with working(house.queue):
        task = await dear.enqueue()
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.attempts, found.cost_usd) == ("budget_exceeded", 1, 0.6)
    assert "max_cost_usd" in found.last_error


async def test_an_overrun_in_a_group_of_tasks_is_one(house: House) -> None:
    @house.queue.task("wide", max_cost_usd=0.5)
    async def wide(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.spend(0.6))

    async with working(house.queue):
        task = await wide.enqueue()
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.attempts) == ("budget_exceeded", 1)


async def test_a_handler_that_does_not_listen_has_failed_all_the_same(house: House) -> None:
    @house.queue.task("deaf", max_cost_usd=0.5)
    async def deaf(ctx: Context) -> str:
        for _ in range(3):
            with suppress(BudgetExceeded):
                await ctx.spend(0.6)
        return "all is well"

    async with working(house.queue):
        task = await deaf.enqueue()
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.result) == ("budget_exceeded", None)


async def test_code_that_goes_on_is_stopped(house: House) -> None:
    stopped = asyncio.Event()

    @house.queue.task("stubborn", max_cost_usd=0.5)
    async def stubborn(ctx: Context) -> None:
        with suppress(BudgetExceeded):
            await ctx.spend(0.6)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(house.queue):
        task = await stubborn.enqueue()
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert stopped.is_set()
    assert found.failure_reason == "budget_exceeded"


async def test_one_that_costs_too_much_cannot_leave_to_wait(house: House) -> None:
    @house.queue.task("leaf")
    async def leaf() -> None: ...

    @house.queue.task("sly", max_cost_usd=0.5)
    async def sly(ctx: Context) -> str:
        with suppress(BudgetExceeded):
            await ctx.spend(0.6)
        await ctx.spawn(leaf.call(), wait=True)
        return "all is well"

    async with working(house.queue):
        task = await sly.enqueue()
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert found.failure_reason == "budget_exceeded"


async def test_what_ends_before_it_runs_has_no_price(house: House) -> None:
    with pytest.raises(ConfigError, match="ack='before'"):
        house.queue.task("early", ack="before", max_cost_usd=0.5)(spender)


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_plain_functions_are_told_too(house: House, kind: Any) -> None:
    house.queue.task("plain", kind=kind)(spender)

    async with working(house.queue):
        task = await house.queue.enqueue("plain", {}, max_cost_usd=0.5)
        found = await ended(house.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.cost_usd) == ("budget_exceeded", 0.6)


async def test_a_cancelled_run_still_says_what_it_cost(house: House) -> None:
    begun = asyncio.Event()

    @house.queue.task("long")
    async def long(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.spend(0.25)

    async with working(house.queue):
        task = await long.enqueue()
        await begun.wait()
        await house.queue.cancel(task.id)

        async def told() -> bool:
            return (await house.queue.get(task.id)).cost_usd == 0.25

        await until(told)

    assert (await house.queue.budgets()).day.spent_usd == 0.25


async def test_a_thread_whose_time_was_up_still_says_what_it_cost(house: House) -> None:
    answered = threading.Event()

    @house.queue.task("slow", timeout=0.2, max_attempts=1)
    def slow(ctx: Context) -> None:
        answered.wait(30)
        ctx.sync.spend(2.0)

    async with working(house.queue) as worker:
        task = await slow.enqueue()
        await ended(house.queue, task.id, State.DEAD_LETTERED)
        answered.set()

        async def told() -> bool:
            return (await house.queue.get(task.id)).cost_usd == 2

        await until(told)

    assert (await house.queue.budgets()).day.spent_usd == 2
    costs = worker.desk.ledger.figures.cells["task_cost_usd"]
    assert costs == {("slow", "any", "unknown"): [2.0]}


async def test_a_handler_that_has_left_to_wait_still_says_what_it_cost(house: House) -> None:
    @house.queue.task("part")
    async def part() -> int:
        return 1

    @house.queue.task("whole")
    async def whole(ctx: Context) -> int:
        try:
            return sum(await ctx.gather(part.call(), part.call()))
        finally:
            await ctx.spend(0.5)

    async with working(house.queue) as worker:
        task = await whole.enqueue()
        assert await task.result(10) == 2

    assert (await house.queue.get(task.id)).cost_usd == 1
    assert (await house.queue.budgets()).day.spent_usd == 1
    costs = worker.desk.ledger.figures.cells["task_cost_usd"]
    assert costs == {("whole", "any", "unknown"): [1.0]}


async def test_workers_and_scrapes_know_what_is_left(house: House) -> None:
    @house.queue.task("work")
    async def work(ctx: Context) -> None:
        await ctx.spend(0.25)

    await house.queue.set_budget(1.0, worker="w1")
    await house.queue.set_budget(2.0)
    async with working(house.queue):
        task = await work.enqueue()
        await task.result(10)
        (info,) = await house.queue.workers()
        figures = await gather_queues([Watched("house", house.queue.shard)])

    assert info.budget_remaining_usd == 0.75
    cells = figures.cells
    assert cells["daily_spend_usd"] == {(): [0.25]}
    assert cells["budget_remaining_usd"] == {("w1",): [0.75]}
    assert cells["rqueue_day_budget_remaining_usd"] == {("house",): [1.75]}
    assert cells["rqueue_unpaid_tasks"] == {("house",): [0]}


async def test_why_names_the_budget_that_cannot_pay(house: House) -> None:
    @house.queue.task("work")
    async def work() -> None: ...

    await house.queue.set_budget(0.1, worker="w1")
    async with working(house.queue) as worker:
        await until(lambda: known(house))
        task = await house.queue.enqueue("work", {}, estimated_cost_usd=0.5)
        found = await house.queue.why(task.id)
        assert [(hold.word, hold.what) for hold in found.holds] == [
            ("budget", "every worker that could")
        ]
        await house.queue.set_budget(0.2)
        found = await house.queue.why(task.id)
        assert [hold.what for hold in found.holds] == ["day", "every worker that could"]
        assert worker.name == "w1"


async def test_why_does_not_hope_for_a_day_that_cannot_pay_either(house: House) -> None:
    task = await house.queue.enqueue("work", {}, estimated_cost_usd=0.5)
    await house.queue.set_budget(0.2)
    never = await house.queue.why(task.id)
    await house.queue.set_budget(0.6)
    today = (await house.client.time())[0] // 86_400
    await house.client.hset(
        house.keys.budget("day"), mapping={"spent": 300_000, "date": str(today)}
    )

    tomorrow = await house.queue.why(task.id)

    assert (never.holds[0].what, never.holds[0].until, never.earliest) == ("day", None, None)
    until = tomorrow.holds[0].until
    assert (tomorrow.holds[0].what, until and until.timestamp()) == ("day", (today + 1) * 86_400)


def spender(ctx: Context) -> None:
    """Runs in a thread, or in a process that imports it from here."""
    ctx.sync.spend(0.6)


async def known(house: House) -> bool:
    return any(one.said for one in await house.queue.workers())
