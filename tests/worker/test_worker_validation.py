"""Validation: an output is checked under its lease before its task is completed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.core import leases
from rqueue.errors import ConfigError, StoreUnavailable, TaskDead
from rqueue.task.attempt.outcome import Completed, Failed, Reason
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker import functions
from tests.worker.running import ended, until, working

REGEX: dict[str, Any] = {"validation": "regex", "validation_schema": "[0-9]+"}


async def again(harness: Harness, task: str) -> None:
    await ended(harness.queue, task, State.RETRYING)
    await harness.make_due(task)
    await harness.promoter.tick()


async def test_an_output_that_passes_completes_its_task(harness: Harness) -> None:
    @harness.queue.task("code", **REGEX)
    async def code() -> str:
        return "42"

    async with working(harness.queue):
        handle = await code.enqueue()
        assert await handle.result(timeout=20) == "42"

    counts = await harness.queue.counts()
    assert (counts["COMPLETED"], counts["VALIDATING"], counts["RUNNING"]) == (1, 0, 0)


async def test_an_output_that_does_not_pass_is_retried_with_the_reason(harness: Harness) -> None:
    @harness.queue.task("code", **REGEX)
    async def code(ctx: Context) -> str:
        return "no number" if ctx.attempt == 1 else str(len(await ctx.previous_attempts()))

    async with working(harness.queue):
        handle = await code.enqueue()
        await again(harness, handle.id)
        assert await handle.result(timeout=20) == "1"

    (record,) = (await harness.task(handle.id)).failure_history
    assert record.reason is Reason.INVALID_OUTPUT
    assert record.error == "regex: the result does not match '[0-9]+'"


async def test_a_task_is_validating_under_its_lease_during_the_checks(harness: Harness) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        begun.set()
        await release.wait()
        return True

    @harness.queue.task("code", validation="llm-judge")
    async def code() -> int:
        return 1

    async with working(harness.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        task = await harness.task(handle.id)
        held = [leases.HeldLease(*one) for one in worker.held.items()]
        renewed = await leases.renew(harness.queue._internals.shard, "w1", held)
        release.set()
        await handle.result(timeout=10)

    assert (task.state, task.claim and task.claim.agent_id) == (State.VALIDATING, "w1")
    assert renewed == ["OK"]


async def test_a_task_without_validators_makes_no_validation_call(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @harness.queue.task("code")
    async def code() -> int:
        return 1

    async def never(*_: Any) -> list[str]:
        raise AssertionError("validated")

    monkeypatch.setattr(leases, "validate", never)
    async with working(harness.queue):
        assert await (await code.enqueue()).result(timeout=10) == 1


@pytest.mark.parametrize("how", ["cancel", "timeout", "lost", "release"])
async def test_a_check_is_stopped_by_the_timeout_of_its_attempt(harness: Harness, how: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return True

    limit = 0.5 if how == "timeout" else 60

    @harness.queue.task("code", validation="llm-judge", timeout=limit, max_attempts=1)
    async def code() -> int:
        return 1

    async with working(harness.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        match how:
            case "cancel":
                await harness.queue.cancel(handle.id)
            case "lost":
                (one,) = worker.held.items()
                worker.lose(leases.HeldLease(*one), "lost")
            case "release":
                worker.stop()
        await stopped.wait()
        await until(lambda: not worker.slots.running)

    states = {"cancel": "CANCELLED", "timeout": "DEAD_LETTERED", "release": "READY"}
    assert str((await harness.task(handle.id)).state) == states.get(how, "VALIDATING")


async def test_a_lease_that_is_lost_before_the_checks_writes_nothing(harness: Harness) -> None:
    begun, release, judged = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        judged.set()
        return True

    @harness.queue.task("code", validation="llm-judge")
    async def code() -> int:
        begun.set()
        await release.wait()
        return 1

    async with working(harness.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        await harness.client.hset(harness.keys.task(handle.id.ulid), "token", "9:other")
        release.set()
        await until(lambda: not worker.slots.running)

    assert not judged.is_set()
    assert (await harness.task(handle.id)).state is State.RUNNING


async def test_validation_waits_while_redis_is_unavailable(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = leases.validate, []

    async def away_at_first(*args: Any) -> list[str]:
        calls.append(args)
        if len(calls) == 1:
            # The call was carried out, and its reply lost.
            await real(*args)
            raise StoreUnavailable("away")
        return await real(*args)

    monkeypatch.setattr(leases, "validate", away_at_first)

    @harness.queue.task("code", **REGEX)
    async def code() -> str:
        return "42"

    async with working(harness.queue):
        assert await (await code.enqueue()).result(timeout=20) == "42"

    assert len(calls) == 2


async def test_a_worker_that_dies_while_it_checks_spends_an_attempt(harness: Harness) -> None:
    lease = await harness.running()
    await lease.validate()
    await harness.age(lease, harness.queue.settings.lease_sec * 2)

    await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (task.state, task.attempts) == (State.RETRYING, 1)


async def test_validators_run_in_order_until_one_fails(harness: Harness) -> None:
    judged_outputs: list[Any] = []

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> tuple[bool, str]:
        judged_outputs.append((ctx.task.type, output, criteria))
        await ctx.spend(0.25)
        return False, "too short"

    @harness.queue.task(
        "code",
        validation=["regex", "llm-judge", "decision-report"],
        validation_schema={"regex": "[0-9]+", "llm-judge": {"words": 100}},
        max_attempts=2,
    )
    async def code(ctx: Context) -> str:
        return "words" if ctx.attempt == 1 else "42"

    async with working(harness.queue):
        handle = await code.enqueue()
        await again(harness, handle.id)
        with pytest.raises(TaskDead, match="llm-judge: too short"):
            await handle.result(timeout=20)

    assert judged_outputs == [("code", "42", {"words": 100})]
    assert (await harness.task(handle.id)).cost_usd == 0.25


@pytest.mark.parametrize(
    "settings", [{"profile": "reference"}, {"validation": {"code": ["decision-report"]}}]
)
async def test_a_queue_can_require_decision_reports(server: Server, settings: Any) -> None:
    async with opened(server, **settings) as harness:

        @harness.queue.task("code", max_attempts=1)
        async def code(good: bool) -> dict[str, Any]:
            return {"output": 1, "decisionReport": {"why": "faster"} if good else {}}

        async with working(harness.queue):
            good, bad = await code.enqueue(True), await code.enqueue(False)
            assert await good.result(timeout=10)
            with pytest.raises(TaskDead):
                await bad.result(timeout=10)
        (record,) = (await harness.task(bad.id)).failure_history

    assert record.reason is Reason.INCOMPLETE
    assert record.error == "decision-report: decisionReport must be an object that is not empty"


async def test_the_output_of_a_handler_in_a_process_is_checked(harness: Harness) -> None:
    harness.queue.task("code", kind="process", validation="regex", validation_schema="x")(
        functions.where
    )

    async with working(harness.queue):
        handle = await harness.queue.enqueue("code", max_attempts=1)
        with pytest.raises(TaskDead, match="regex: the result does not match 'x'"):
            await handle.result(timeout=30)


async def test_middleware_gets_the_outcome_after_the_validation(
    harness: Harness,
) -> None:
    seen: list[Completed | Failed] = []

    class Looking(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    harness.queue.use(Looking())

    @harness.queue.task("code", max_attempts=1, **REGEX)
    async def code() -> str:
        return "words"

    async with working(harness.queue):
        with pytest.raises(TaskDead):
            await (await code.enqueue()).result(timeout=20)

    assert [type(one) for one in seen] == [Failed]


async def test_an_output_that_the_worker_cannot_check_fails_before_the_handler_runs(
    harness: Harness,
) -> None:
    ran: list[int] = []

    @harness.queue.task("code")
    async def code() -> None:
        ran.append(1)

    async with working(harness.queue):
        handle = await code.options(validation="llm-judge", max_attempts=1).enqueue()
        with pytest.raises(TaskDead, match="llm-judge could not be checked: this worker has no ju"):
            await handle.result(timeout=10)

    assert ran == []


async def test_a_worker_that_cannot_check_its_own_tasks_does_not_start(harness: Harness) -> None:
    @harness.queue.task("code", validation="test-pass", validation_schema=["make", "test"])
    async def code() -> None: ...

    with pytest.raises(ConfigError, match="task code: test-pass: this worker does not run make te"):
        harness.queue.worker()


async def test_a_task_acknowledged_before_cannot_have_validators(harness: Harness) -> None:
    with pytest.raises(ConfigError, match="ack='before'"):

        @harness.queue.task("code", ack="before", **REGEX)
        async def code() -> None: ...
