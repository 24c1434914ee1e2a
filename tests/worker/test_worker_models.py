"""What an attempt gets: the model to use, and how the earlier attempts failed."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import InvalidTask, TaskDead
from rqueue.task.task import model_of
from tests.harness import Harness
from tests.worker import functions
from tests.worker.running import ended, working

MODELS: dict[str, Any] = {
    "model_preferences": ["best", "good"],
    "fallback_models": ["cheap"],
    "max_attempts": 3,
}


async def again(harness: Harness, task: str) -> None:
    await ended(harness.queue, task, State.RETRYING)
    await harness.make_due(task)
    await harness.promoter.tick()


async def test_a_handler_falls_back_after_two_failed_attempts(harness: Harness) -> None:
    @harness.queue.task("code", **MODELS)
    async def code(ctx: Context) -> str | None:
        if ctx.attempt < 3:
            raise ConnectionError("unavailable")
        return ctx.model

    async with working(harness.queue, models=["good", "cheap"]):
        handle = await code.enqueue()
        for _ in range(2):
            await again(harness, handle.id)
        assert await handle.result(timeout=10) == "cheap"

    task = await harness.task(handle.id)
    assert [record.model for record in task.failure_history] == ["good", "good"]
    assert task.spec.model_preferences == ("best", "good")


async def test_a_worker_without_the_model_fails_the_attempt_and_another_may_have_it(
    harness: Harness,
) -> None:
    ran: list[str | None] = []

    @harness.queue.task("code", **MODELS)
    async def code(ctx: Context) -> None:
        ran.append(ctx.model)

    handle = await code.enqueue()
    async with working(harness.queue, models=["other"]):
        task = await ended(harness.queue, handle.id, State.RETRYING)
    await again(harness, handle.id)
    async with working(harness.queue, models=["best"]):
        await handle.result(timeout=10)

    assert "needs one of the models best, good; this worker has other" in task.last_error
    assert ran == ["best"]


@pytest.mark.parametrize("options", [{}, MODELS])
async def test_a_worker_without_models_offers_any(
    harness: Harness, options: dict[str, Any]
) -> None:
    @harness.queue.task("code", **options)
    async def code(ctx: Context) -> str | None:
        return ctx.model

    async with working(harness.queue):
        found = await (await code.enqueue()).result(timeout=10)

    assert found == ("best" if options else None)


async def test_a_subprocess_gets_its_model(harness: Harness) -> None:
    harness.queue.task("code", kind="process", **MODELS)(functions.which_model)

    async with working(harness.queue, models=["good"]):
        handle = await harness.queue.enqueue("code")
        assert await handle.result(timeout=30) == "good"


async def test_cost_is_counted_by_model(harness: Harness) -> None:
    @harness.queue.task("code", **MODELS)
    async def code(ctx: Context) -> None:
        await ctx.spend(0.5)

    async with working(harness.queue, models=["good"]) as worker:
        await (await code.enqueue()).result(timeout=10)
        cells = worker.executor.stats.figures.cells

    assert cells["task_cost_usd"]["code", "any", "good"] == [0.5]


async def test_a_handler_may_name_the_model_that_its_cost_is_for(harness: Harness) -> None:
    @harness.queue.task("code", **MODELS)
    async def code(ctx: Context) -> None:
        await ctx.spend(0.5, model="other")

    @harness.queue.task("plain")
    def plain(ctx: Context) -> None:
        ctx.sync.spend(0.25, tokens_in=1, model="mine")
        ctx.sync.spend(0.25)

    async with working(harness.queue, models=["good"]) as worker:
        await (await code.enqueue()).result(timeout=10)
        await (await plain.enqueue()).result(timeout=10)
        cells = worker.executor.stats.figures.cells

    assert cells["task_cost_usd"]["code", "any", "other"] == [0.5]
    assert cells["task_cost_usd"]["plain", "any", "mine"] == [0.25]
    assert cells["task_cost_usd"]["plain", "any", "unknown"] == [0.25]


@pytest.mark.parametrize("model", ["", "a b", 7, "x" * 257])
async def test_the_model_of_a_cost_must_be_a_label(harness: Harness, model: Any) -> None:
    lease = await harness.running()

    with pytest.raises(InvalidTask, match="model"):
        await lease.spend(0.5, model=model)
    with pytest.raises(InvalidTask, match="model"):
        model_of(model)


@pytest.mark.parametrize("models", ["best", [""], [7], None])
async def test_offered_models_must_be_labels(harness: Harness, models: Any) -> None:
    with pytest.raises(InvalidTask, match="models"):
        harness.queue.worker(models=models)


async def test_an_unknown_worker_option_is_an_error(harness: Harness) -> None:
    with pytest.raises(TypeError, match="'model'"):
        harness.queue.worker(model=["best"])  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{}, {"priority": 3}])
async def test_the_next_attempt_gets_the_failures_of_the_earlier_ones(
    harness: Harness, options: dict[str, Any]
) -> None:
    @harness.queue.task("code", **options)
    async def code(ctx: Context, context: dict[str, Any]) -> Any:
        if ctx.attempt == 1:
            raise ConnectionError("unavailable")
        in_task = ctx.task.payload["context"]
        return [context, in_task, await ctx.previous_attempts()]

    line = "attempt 1 failed, error: ConnectionError: unavailable"
    async with working(harness.queue):
        handle = await code.enqueue({"previousAttempts": "none yet"})
        await again(harness, handle.id)
        found: Any = await handle.result(timeout=10)

    expected = {"previousAttempts": f"none yet\n{line}"}
    assert found == [expected, expected, [line]]
    assert (await harness.task(handle.id)).payload == {"context": {"previousAttempts": "none yet"}}


async def test_a_payload_with_another_context_type_gets_no_failures(harness: Harness) -> None:
    @harness.queue.task("code", max_attempts=2)
    async def code(ctx: Context, context: dict[str, int]) -> None:
        raise ConnectionError("unavailable")

    async with working(harness.queue):
        handle = await code.enqueue({"a": 1})
        await again(harness, handle.id)
        with pytest.raises(TaskDead, match="ConnectionError: unavailable"):
            await handle.result(timeout=10)
