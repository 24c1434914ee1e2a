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
from tests.worker import kinds
from tests.worker.working import ended, until, working

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


async def test_while_it_is_checked_a_task_is_validating_under_its_lease(harness: Harness) -> None:
    begun, goes = asyncio.Event(), asyncio.Event()

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        begun.set()
        await goes.wait()
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
        goes.set()
        await handle.result(timeout=10)

    assert (task.state, task.claim and task.claim.agent_id) == (State.VALIDATING, "w1")
    assert renewed == ["OK"]


async def test_a_plain_task_pays_no_call(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    @harness.queue.task("code")
    async def code() -> int:
        return 1

    async def never(*_: Any) -> list[str]:
        raise AssertionError("validated")

    monkeypatch.setattr(leases, "validate", never)
    async with working(harness.queue):
        assert await (await code.enqueue()).result(timeout=10) == 1


@pytest.mark.parametrize("how", ["cancel", "timeout", "lost", "release"])
async def test_a_check_is_stopped_as_its_handler_would_be(harness: Harness, how: str) -> None:
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
    begun, goes, judged = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        judged.set()
        return True

    @harness.queue.task("code", validation="llm-judge")
    async def code() -> int:
        begun.set()
        await goes.wait()
        return 1

    async with working(harness.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        await harness.client.hset(harness.keys.task(handle.id.ulid), "token", "9:other")
        goes.set()
        await until(lambda: not worker.slots.running)

    assert not judged.is_set()
    assert (await harness.task(handle.id)).state is State.RUNNING


async def test_a_server_that_is_away_is_waited_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = leases.validate, []

    async def away_at_first(*args: Any) -> list[str]:
        asked.append(args)
        if len(asked) == 1:
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

    assert len(asked) == 2


async def test_a_worker_that_dies_while_it_checks_spends_an_attempt(harness: Harness) -> None:
    lease = await harness.running()
    await lease.validate()
    await harness.age(lease, harness.queue.settings.lease_sec * 2)

    await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (task.state, task.attempts) == (State.RETRYING, 1)


async def test_several_are_checked_in_a_row_until_one_fails(harness: Harness) -> None:
    asked: list[Any] = []

    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> tuple[bool, str]:
        asked.append((ctx.task.type, output, criteria))
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

    assert asked == [("code", "42", {"words": 100})]
    assert (await harness.task(handle.id)).cost_usd == 0.25


@pytest.mark.parametrize(
    "settings", [{"profile": "reference"}, {"validation": {"code": ["decision-report"]}}]
)
async def test_a_queue_asks_for_decision_reports(server: Server, settings: Any) -> None:
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


async def test_of_a_handler_in_a_process_the_output_is_checked_too(harness: Harness) -> None:
    harness.queue.task("code", kind="process", validation="regex", validation_schema="x")(
        kinds.where
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


async def test_what_a_worker_cannot_check_fails_before_the_work(harness: Harness) -> None:
    ran: list[int] = []

    @harness.queue.task("code")
    async def code() -> None:
        ran.append(1)

    async with working(harness.queue):
        asked = await code.options(validation="llm-judge", max_attempts=1).enqueue()
        with pytest.raises(TaskDead, match="llm-judge could not be checked: this worker has no ju"):
            await asked.result(timeout=10)

    assert ran == []


async def test_a_worker_does_not_start_that_could_not_check_its_own_tasks(harness: Harness) -> None:
    @harness.queue.task("code", validation="test-pass", validation_schema=["make", "test"])
    async def code() -> None: ...

    with pytest.raises(ConfigError, match="task code: test-pass: this worker does not run make te"):
        harness.queue.worker()


async def test_a_proof_comes_too_late_for_a_task_that_is_completed_first(harness: Harness) -> None:
    with pytest.raises(ConfigError, match="ack='before'"):

        @harness.queue.task("code", ack="before", **REGEX)
        async def code() -> None: ...
