"""Running handlers in memory: the real attempt, in the queue's order, at the memory's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Context, Middleware, State, depends
from rqueue.errors import InvalidTask, TaskDead
from rqueue.task.attempt.outcome import Completed, Failed
from rqueue.testing import Memory, memory
from tests.testing.shop import Shop


async def test_ready_tasks_run_in_the_order_of_the_queue(shop: Shop, held: Memory) -> None:
    await shop.resize.options(priority=90).enqueue("last")
    await shop.resize.enqueue("second")
    await shop.resize.options(priority=1).enqueue("first")
    waits = await shop.resize.options(delay_sec=60).enqueue("waits")

    ran = await held.run_until_idle()

    assert [path for path, _ in shop.seen] == ["first", "second", "last"]
    assert [one.state for one in ran] == [State.COMPLETED] * 3
    assert (await waits.status(), held.tasks(status="PENDING")[0].id) == ("PENDING", waits.id)
    assert held.tasks(type=shop.resize)[0].progress == {"width": 800}


async def test_tasks_enqueued_by_handlers_run_too(shop: Shop, held: Memory) -> None:
    @shop.queue.task("chain")
    async def chain(n: int) -> None:
        if n:
            await chain.options(priority=1).enqueue(n - 1)

    await chain.enqueue(3)

    assert len(await held.run_until_idle()) == 4
    await chain.enqueue(5)
    with pytest.raises(RuntimeError, match="more than 3 attempts"):
        await held.run_until_idle(most=3)


async def test_a_failed_attempt_waits_for_its_retry_delay(shop: Shop, held: Memory) -> None:
    handle = await shop.flaky.enqueue(3)

    (ran,) = await held.run_until_idle()
    assert (ran.attempt, ran.state, str(ran.error)) == (1, State.RETRYING, "attempt 1")
    held.advance(9.999)
    assert await held.run_until_idle() == []
    held.advance(0.001)
    assert [one.attempt for one in await held.run_until_idle()] == [2]

    began = held.now
    (ran,) = await held.run_until_idle(advance=True)
    assert (ran.attempt, ran.state, ran.error) == (3, State.COMPLETED, None)
    assert (await handle.result(), (held.now - began).total_seconds()) == (3, 10)


async def test_a_task_dies_after_its_last_attempt(shop: Shop, held: Memory) -> None:
    handle = await shop.flaky.enqueue(9)

    ran = await held.run_until_idle(advance=True)

    assert [one.state for one in ran] == ["RETRYING", "RETRYING", "DEAD_LETTERED"]
    assert [str(one.error) for one in ran] == ["attempt 1", "attempt 2", "attempt 3"]
    with pytest.raises(TaskDead, match="attempt 3"):
        await handle.result()


async def test_the_first_death_is_raised_on_request(shop: Shop, held: Memory) -> None:
    await shop.flaky.options(max_attempts=1).enqueue(9)

    with pytest.raises(ConnectionError, match="attempt 1"):
        await held.run_until_idle(raise_errors=True)
    await shop.large.enqueue()
    with pytest.raises(TaskDead, match="1024"):
        await held.run_until_idle(raise_errors=True)


async def test_a_handler_requests_a_retry_or_rejects_the_task(shop: Shop, held: Memory) -> None:
    later, refused = await shop.later.enqueue(33), await shop.refuse.enqueue()
    await held.run_until_idle()

    retry_at, dead = (await later.task()).retry_at, await refused.task()
    assert retry_at is not None
    assert (retry_at - held.now).total_seconds() == 33
    assert (dead.state, dead.attempts, dead.last_error) == ("DEAD_LETTERED", 1, "never")
    held.advance(33)
    await held.run_until_idle()
    assert await later.result() == "done"


@pytest.mark.parametrize(
    ("type", "reason", "words"),
    [
        ("slow", "timeout", "stopped after"),
        ("large", "invalid_output", "1024"),
        ("liar", "invalid_output", "promises"),
    ],
)
async def test_an_attempt_fails_as_in_a_worker(
    held: Memory, type: str, reason: str, words: str
) -> None:
    handle = await held.queue.enqueue(type)
    (ran,) = await held.run_until_idle()

    task = await handle.task()
    assert (ran.state, ran.error) == (State.DEAD_LETTERED, None)
    assert task.failure_reason == reason
    assert words in (task.last_error or "")


async def test_arguments_are_checked_at_both_ends(shop: Shop, held: Memory) -> None:
    with pytest.raises(InvalidTask):
        shop.resize.call()  # type: ignore[call-arg]
    handle = await held.queue.enqueue("resize", {"path": "a.png", "depth": 3})
    await held.run_until_idle()

    task = await handle.task()
    assert (task.state, task.attempts) == (State.DEAD_LETTERED, 1)
    assert shop.seen == []


async def test_a_task_without_a_handler_stays_ready(shop: Shop, held: Memory) -> None:
    handle = await held.queue.enqueue("unknown", max_attempts=1)

    assert await held.run_until_idle(advance=True) == []
    assert await handle.status() is State.READY
    await held.run_until_idle(types=["unknown"])
    assert "no handler for unknown" in ((await handle.task()).last_error or "")


async def test_paused_tasks_and_tasks_with_other_requirements_do_not_run(
    shop: Shop, held: Memory
) -> None:
    await held.queue.pause(type="plain")
    await shop.plain.enqueue(1)
    await shop.resize.options(required_capabilities=["gpu"]).enqueue("a.png")

    assert await held.run_until_idle() == []
    assert len(await held.run_until_idle(capabilities=["gpu"])) == 1
    await held.queue.resume(type="plain")
    assert len(await held.run_until_idle()) == 1


async def test_a_handler_may_wait_for_another_task(shop: Shop, held: Memory) -> None:
    handle = await shop.parent.enqueue(4)
    await held.run_until_idle(concurrency=2)

    assert await handle.result() == 50


async def test_middleware_lifespans_and_dependencies_run_as_in_a_worker(
    shop: Shop, held: Memory
) -> None:
    story: list[str] = []

    class Recording(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            story.append(f"before {ctx.attempt}")

        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            story.append(f"after {type(outcome).__name__}")

    @asynccontextmanager
    async def lifespan(state: dict[str, Any]) -> AsyncIterator[None]:
        state["unit"] = "EUR"
        yield
        story.append("closed")

    def unit(ctx: Context) -> str:
        return str(ctx.state["unit"])

    @shop.queue.task("price")
    async def price(cents: int, currency: str = depends(unit)) -> str:
        return f"{cents} {currency}"

    shop.queue._internals.hooks.middleware.append(Recording())
    shop.queue._internals.hooks.lifespans.append(lifespan)
    handle = await price.enqueue(5)
    await held.run_until_idle()

    assert await handle.result() == "5 EUR"
    assert story == ["before 1", "after Completed", "closed"]


async def test_a_cancelled_task_is_stopped_while_it_runs() -> None:
    shop, entered = Shop("redis://nowhere.invalid:1", lease_sec=0.03), asyncio.Event()

    @shop.queue.task("endless")
    async def endless() -> None:
        entered.set()
        await asyncio.Event().wait()

    with memory(shop.queue) as held:
        handle = await endless.enqueue()
        running = asyncio.create_task(held.run_until_idle())
        await entered.wait()
        await handle.cancel()

        assert await asyncio.wait_for(running, 10) == []
        assert await handle.status() is State.CANCELLED


async def test_a_cancelled_run_releases_its_task(shop: Shop, held: Memory) -> None:
    handle = await shop.slow.options(timeout_sec=60).enqueue()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await held.run_until_idle()

    task = await handle.task()
    assert (task.state, task.attempts) == (State.READY, 0)


async def test_a_lost_worker_spends_an_attempt(shop: Shop, held: Memory) -> None:
    await shop.resize.enqueue("a.png")
    await shop.plain.enqueue(1)

    (lost,) = held.crash_worker(types=["resize"])
    (kept,) = held.crash_worker(started=False)
    assert (lost.state, kept.state) == (State.RUNNING, State.CLAIMED)
    held.advance(29.999)
    assert {task.state for task in held.tasks()} == {State.RUNNING, State.CLAIMED}
    held.advance(0.001)

    found = {task.type: (task.state, task.attempts, task.reclaims) for task in held.tasks()}
    assert found == {"resize": ("READY", 1, 1), "plain": ("READY", 0, 0)}
    await held.run_until_idle(advance=True)
    assert shop.seen == [("a.png", 2), 1]


async def test_the_same_seed_gives_the_same_run() -> None:
    async def retry_delays(seed: int) -> list[float]:
        shop = Shop("redis://nowhere.invalid:1", retry=None)
        with memory(shop.queue, seed=seed) as held:
            await shop.flaky.enqueue(9)
            began, found = held.now, []
            while await held.run_until_idle() and held.jump():
                found.append((held.now - began).total_seconds())
            return found

    assert await retry_delays(1) == await retry_delays(1) != await retry_delays(2)
