"""Proof of work: an output is checked under its lease before its task is completed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.errors import ConfigError, StoreUnavailable, TaskDead
from rqueue.model.attempt import Completed, Failed, Reason
from rqueue.store import leases
from tests.house import House, opened
from tests.servers import Server
from tests.services import kinds
from tests.services.working import ended, until, working

REGEX: dict[str, Any] = {"validation": "regex", "validation_schema": "[0-9]+"}


async def again(house: House, task: str) -> None:
    await ended(house.queue, task, State.RETRYING)
    await house.make_due(task)
    await house.promoter.tick()


async def test_an_output_that_passes_completes_its_task(house: House) -> None:
    @house.queue.task("code", **REGEX)
    async def code() -> str:
        return "42"

    async with working(house.queue):
        handle = await code.enqueue()
        assert await handle.result(timeout=20) == "42"

    counts = await house.queue.counts()
    assert (counts["COMPLETED"], counts["VALIDATING"], counts["RUNNING"]) == (1, 0, 0)


async def test_one_that_does_not_is_tried_again_and_told_why(house: House) -> None:
    @house.queue.task("code", **REGEX)
    async def code(ctx: Context) -> str:
        return "no number" if ctx.attempt == 1 else str(len(await ctx.previous_attempts()))

    async with working(house.queue):
        handle = await code.enqueue()
        await again(house, handle.id)
        assert await handle.result(timeout=20) == "1"

    (record,) = (await house.task(handle.id)).failure_history
    assert record.reason is Reason.INVALID_OUTPUT
    assert record.error == "regex: the result does not match '[0-9]+'"


async def test_while_it_is_checked_a_task_is_validating_under_its_lease(house: House) -> None:
    begun, goes = asyncio.Event(), asyncio.Event()

    @house.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        begun.set()
        await goes.wait()
        return True

    @house.queue.task("code", validation="llm-judge")
    async def code() -> int:
        return 1

    async with working(house.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        task = await house.task(handle.id)
        held = [leases.Held(*one) for one in worker.held.items()]
        renewed = await leases.renew(house.queue.shard, "w1", held)
        goes.set()
        await handle.result(timeout=10)

    assert (task.state, task.claim and task.claim.agent_id) == (State.VALIDATING, "w1")
    assert renewed == ["OK"]


async def test_a_plain_task_pays_no_call(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    @house.queue.task("code")
    async def code() -> int:
        return 1

    async def never(*_: Any) -> list[str]:
        raise AssertionError("validated")

    monkeypatch.setattr(leases, "validate", never)
    async with working(house.queue):
        assert await (await code.enqueue()).result(timeout=10) == 1


@pytest.mark.parametrize("how", ["cancel", "timeout", "lost", "release"])
async def test_a_check_is_stopped_as_its_handler_would_be(house: House, how: str) -> None:
    begun, told = asyncio.Event(), asyncio.Event()

    @house.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()
        return True

    limit = 0.5 if how == "timeout" else 60

    @house.queue.task("code", validation="llm-judge", timeout=limit, max_attempts=1)
    async def code() -> int:
        return 1

    async with working(house.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        match how:
            case "cancel":
                await house.queue.cancel(handle.id)
            case "lost":
                (one,) = worker.held.items()
                worker.lose(leases.Held(*one), "lost")
            case "release":
                worker.stop()
        await told.wait()
        await until(lambda: not worker.slots.running)

    states = {"cancel": "CANCELLED", "timeout": "DEAD_LETTERED", "release": "READY"}
    assert str((await house.task(handle.id)).state) == states.get(how, "VALIDATING")


async def test_a_lease_that_is_lost_before_the_checks_writes_nothing(house: House) -> None:
    begun, goes, judged = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @house.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        judged.set()
        return True

    @house.queue.task("code", validation="llm-judge")
    async def code() -> int:
        begun.set()
        await goes.wait()
        return 1

    async with working(house.queue) as worker:
        handle = await code.enqueue()
        await begun.wait()
        await house.client.hset(house.keys.task(handle.id.ulid), "token", "9:other")
        goes.set()
        await until(lambda: not worker.slots.running)

    assert not judged.is_set()
    assert (await house.task(handle.id)).state is State.RUNNING


async def test_a_server_that_is_away_is_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = leases.validate, []

    async def away_at_first(*args: Any) -> list[str]:
        asked.append(args)
        if len(asked) == 1:
            # The call was carried out, and its answer lost.
            await real(*args)
            raise StoreUnavailable("away")
        return await real(*args)

    monkeypatch.setattr(leases, "validate", away_at_first)

    @house.queue.task("code", **REGEX)
    async def code() -> str:
        return "42"

    async with working(house.queue):
        assert await (await code.enqueue()).result(timeout=20) == "42"

    assert len(asked) == 2


async def test_a_worker_that_dies_while_it_checks_spends_an_attempt(house: House) -> None:
    lease = await house.running()
    await lease.validate()
    await house.age(lease, house.queue.settings.lease_sec * 2)

    await house.reaper.tick()

    task = await house.task(lease.id)
    assert (task.state, task.attempts) == (State.RETRYING, 1)


async def test_several_are_checked_in_a_row_until_one_fails(house: House) -> None:
    asked: list[Any] = []

    @house.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> tuple[bool, str]:
        asked.append((ctx.task.type, output, criteria))
        await ctx.spend(0.25)
        return False, "too short"

    @house.queue.task(
        "code",
        validation=["regex", "llm-judge", "decision-report"],
        validation_schema={"regex": "[0-9]+", "llm-judge": {"words": 100}},
        max_attempts=2,
    )
    async def code(ctx: Context) -> str:
        return "words" if ctx.attempt == 1 else "42"

    async with working(house.queue):
        handle = await code.enqueue()
        await again(house, handle.id)
        with pytest.raises(TaskDead, match="llm-judge: too short"):
            await handle.result(timeout=20)

    assert asked == [("code", "42", {"words": 100})]
    assert (await house.task(handle.id)).cost_usd == 0.25


@pytest.mark.parametrize(
    "settings", [{"profile": "reference"}, {"validation": {"code": ["decision-report"]}}]
)
async def test_a_queue_asks_for_decision_reports(server: Server, settings: Any) -> None:
    async with opened(server, **settings) as house:

        @house.queue.task("code", max_attempts=1)
        async def code(good: bool) -> dict[str, Any]:
            return {"output": 1, "decisionReport": {"why": "faster"} if good else {}}

        async with working(house.queue):
            good, bad = await code.enqueue(True), await code.enqueue(False)
            assert await good.result(timeout=10)
            with pytest.raises(TaskDead):
                await bad.result(timeout=10)
        (record,) = (await house.task(bad.id)).failure_history

    assert record.reason is Reason.INCOMPLETE
    assert record.error == "decision-report: decisionReport is an object that is not empty"


async def test_of_a_handler_in_a_process_the_output_is_checked_too(house: House) -> None:
    house.queue.task("code", kind="process", validation="regex", validation_schema="x")(kinds.where)

    async with working(house.queue):
        handle = await house.queue.enqueue("code", max_attempts=1)
        with pytest.raises(TaskDead, match="regex: the result does not match 'x'"):
            await handle.result(timeout=30)


async def test_middleware_is_told_how_the_attempt_ended_when_it_is_checked(house: House) -> None:
    seen: list[Completed | Failed] = []

    class Looking(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    house.queue.use(Looking())

    @house.queue.task("code", max_attempts=1, **REGEX)
    async def code() -> str:
        return "words"

    async with working(house.queue):
        with pytest.raises(TaskDead):
            await (await code.enqueue()).result(timeout=20)

    assert [type(one) for one in seen] == [Failed]


async def test_what_a_worker_cannot_check_fails_before_the_work(house: House) -> None:
    ran: list[int] = []

    @house.queue.task("code")
    async def code() -> None:
        ran.append(1)

    async with working(house.queue):
        asked = await code.options(validation="llm-judge", max_attempts=1).enqueue()
        with pytest.raises(TaskDead, match="llm-judge could not be checked: this worker has no ju"):
            await asked.result(timeout=10)

    assert ran == []


async def test_a_worker_does_not_start_that_could_not_check_its_own_tasks(house: House) -> None:
    @house.queue.task("code", validation="test-pass", validation_schema=["make", "test"])
    async def code() -> None: ...

    with pytest.raises(ConfigError, match="task code: test-pass: this worker does not run make te"):
        house.queue.worker()


async def test_a_proof_comes_too_late_for_a_task_that_is_completed_first(house: House) -> None:
    with pytest.raises(ConfigError, match="ack='before'"):

        @house.queue.task("code", ack="before", **REGEX)
        async def code() -> None: ...
