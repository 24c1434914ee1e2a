"""A run that exceeds its budget ends, whatever its handler does; a late cost is still counted."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import BudgetExceeded, ConfigError
from rqueue.gauges import gather_queues
from rqueue.process.monitor import ServedQueue
from tests.harness import Harness
from tests.queue.until import until
from tests.worker.running import ended, working


async def test_an_overrun_ends_the_task_without_a_retry(harness: Harness) -> None:
    @harness.queue.task("dear", max_cost_usd=0.5)
    async def dear(ctx: Context) -> None:
        await ctx.spend(0.6)

    async with working(harness.queue):
        task = await dear.enqueue()
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.attempts, found.cost_usd) == ("budget_exceeded", 1, 0.6)
    assert "max_cost_usd" in found.last_error


async def test_an_overrun_in_a_task_group_ends_the_task(harness: Harness) -> None:
    @harness.queue.task("wide", max_cost_usd=0.5)
    async def wide(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.spend(0.6))

    async with working(harness.queue):
        task = await wide.enqueue()
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.attempts) == ("budget_exceeded", 1)


async def test_a_handler_that_catches_budget_exceeded_has_failed(harness: Harness) -> None:
    @harness.queue.task("ignores_stop", max_cost_usd=0.5)
    async def ignores_stop(ctx: Context) -> str:
        for _ in range(3):
            with suppress(BudgetExceeded):
                await ctx.spend(0.6)
        return "all is well"

    async with working(harness.queue):
        task = await ignores_stop.enqueue()
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.result) == ("budget_exceeded", None)


async def test_a_handler_that_continues_after_an_overrun_is_stopped(harness: Harness) -> None:
    stopped = asyncio.Event()

    @harness.queue.task("stubborn", max_cost_usd=0.5)
    async def stubborn(ctx: Context) -> None:
        with suppress(BudgetExceeded):
            await ctx.spend(0.6)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(harness.queue):
        task = await stubborn.enqueue()
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert stopped.is_set()
    assert found.failure_reason == "budget_exceeded"


async def test_a_run_that_exceeds_its_budget_cannot_be_suspended(harness: Harness) -> None:
    @harness.queue.task("leaf")
    async def leaf() -> None: ...

    @harness.queue.task("sly", max_cost_usd=0.5)
    async def sly(ctx: Context) -> str:
        with suppress(BudgetExceeded):
            await ctx.spend(0.6)
        await ctx.spawn(leaf.call(), wait=True)
        return "all is well"

    async with working(harness.queue):
        task = await sly.enqueue()
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert found.failure_reason == "budget_exceeded"


async def test_a_task_acknowledged_before_cannot_have_a_cost_limit(harness: Harness) -> None:
    with pytest.raises(ConfigError, match="ack='before'"):
        harness.queue.task("early", ack="before", max_cost_usd=0.5)(spender)


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_plain_functions_get_the_exception_too(harness: Harness, kind: Any) -> None:
    harness.queue.task("plain", kind=kind)(spender)

    async with working(harness.queue):
        task = await harness.queue.enqueue("plain", {}, max_cost_usd=0.5)
        found = await ended(harness.queue, task.id, State.DEAD_LETTERED)

    assert (found.failure_reason, found.cost_usd) == ("budget_exceeded", 0.6)


async def test_a_cancelled_run_still_reports_its_cost(harness: Harness) -> None:
    begun = asyncio.Event()

    @harness.queue.task("long")
    async def long(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.spend(0.25)

    async with working(harness.queue):
        task = await long.enqueue()
        await begun.wait()
        await harness.queue.cancel(task.id)

        async def counted() -> bool:
            return (await harness.queue.get(task.id)).cost_usd == 0.25

        await until(counted)

    assert (await harness.queue.budgets.list()).day.spent_usd == 0.25


async def test_a_thread_that_timed_out_still_reports_its_cost(harness: Harness) -> None:
    answered = threading.Event()

    @harness.queue.task("slow", timeout=0.2, max_attempts=1)
    def slow(ctx: Context) -> None:
        answered.wait(30)
        ctx.sync.spend(2.0)

    async with working(harness.queue) as worker:
        task = await slow.enqueue()
        await ended(harness.queue, task.id, State.DEAD_LETTERED)
        answered.set()

        async def counted() -> bool:
            return (await harness.queue.get(task.id)).cost_usd == 2

        await until(counted)

    assert (await harness.queue.budgets.list()).day.spent_usd == 2
    costs = worker.executor.stats.figures.cells["task_cost_usd"]
    assert costs == {("slow", "any", "unknown"): [2.0]}


async def test_a_suspended_handler_still_reports_its_cost(harness: Harness) -> None:
    @harness.queue.task("part")
    async def part() -> int:
        return 1

    @harness.queue.task("whole")
    async def whole(ctx: Context) -> int:
        try:
            return sum(await ctx.gather(part.call(), part.call()))
        finally:
            await ctx.spend(0.5)

    async with working(harness.queue) as worker:
        task = await whole.enqueue()
        assert await task.result(10) == 2

    assert (await harness.queue.get(task.id)).cost_usd == 1
    assert (await harness.queue.budgets.list()).day.spent_usd == 1
    costs = worker.executor.stats.figures.cells["task_cost_usd"]
    assert costs == {("whole", "any", "unknown"): [1.0]}


async def test_workers_and_metrics_show_the_remaining_budgets(harness: Harness) -> None:
    @harness.queue.task("work")
    async def work(ctx: Context) -> None:
        await ctx.spend(0.25)

    await harness.queue.budgets.set(1.0, worker="w1")
    await harness.queue.budgets.set(2.0)
    async with working(harness.queue):
        task = await work.enqueue()
        await task.result(10)
        (info,) = await harness.queue.fleet.workers()
        figures = await gather_queues([ServedQueue("sales", harness.queue._internals.shard)])

    assert info.budget_remaining_usd == 0.75
    cells = figures.cells
    assert cells["daily_spend_usd"] == {(): [0.25]}
    assert cells["budget_remaining_usd"] == {("w1",): [0.75]}
    assert cells["rqueue_day_budget_remaining_usd"] == {("sales",): [1.75]}
    assert cells["rqueue_unpaid_tasks"] == {("sales",): [0]}


async def test_why_names_the_budget_that_is_exceeded(harness: Harness) -> None:
    @harness.queue.task("work")
    async def work() -> None: ...

    await harness.queue.budgets.set(0.1, worker="w1")
    async with working(harness.queue) as worker:
        await until(lambda: known(harness))
        task = await harness.queue.enqueue("work", {}, estimated_cost_usd=0.5)
        found = await harness.queue.why(task.id)
        assert [(hold.word, hold.what) for hold in found.holds] == [
            ("budget", "every worker that could run it")
        ]
        await harness.queue.budgets.set(0.2)
        found = await harness.queue.why(task.id)
        assert [hold.what for hold in found.holds] == ["day", "every worker that could run it"]
        assert worker.name == "w1"


async def test_why_names_no_day_if_no_day_can_cover_the_cost(harness: Harness) -> None:
    task = await harness.queue.enqueue("work", {}, estimated_cost_usd=0.5)
    await harness.queue.budgets.set(0.2)
    never = await harness.queue.why(task.id)
    await harness.queue.budgets.set(0.6)
    today = (await harness.client.time())[0] // 86_400
    await harness.client.hset(
        harness.keys.budget("day"), mapping={"spent": 300_000, "date": str(today)}
    )

    tomorrow = await harness.queue.why(task.id)

    assert (never.holds[0].what, never.holds[0].until, never.earliest) == ("day", None, None)
    until = tomorrow.holds[0].until
    assert (tomorrow.holds[0].what, until and until.timestamp()) == ("day", (today + 1) * 86_400)


def spender(ctx: Context) -> None:
    """Runs in a thread, or in a process that imports it from here."""
    ctx.sync.spend(0.6)


async def known(harness: Harness) -> bool:
    return any(one.registration for one in await harness.queue.fleet.workers())
