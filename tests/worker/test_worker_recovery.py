"""A worker continues: its claim is renewed, a lost task that returns runs once, and errors of Redis
are waited out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Queue, State
from rqueue.core import leases
from rqueue.core.claim import Grant
from rqueue.errors import ConfigError, InvalidTask
from rqueue.worker.session import WaitState
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.slots import Slots
from rqueue.worker.worker import restarting
from tests.harness import Harness
from tests.worker.running import ended, until, working


async def nothing(_: object) -> None:
    """An attempt that does nothing."""


async def test_a_claim_without_an_answer_is_renewed() -> None:
    again = asyncio.Event()
    waiting_claim = WaitState(Slots(SharedSlots(1), nothing, lambda: None), again.set)

    waiting_claim.begin(0.01)
    assert waiting_claim.waiting
    await asyncio.wait_for(again.wait(), 5)

    assert not waiting_claim.waiting


async def test_an_answered_claim_is_not_ended_by_its_old_timer() -> None:
    again = asyncio.Event()
    waiting_claim = WaitState(Slots(SharedSlots(1), nothing, lambda: None), again.set)

    waiting_claim.begin(60)
    waiting_claim.begin(0)

    assert waiting_claim.timer is None
    assert not again.is_set()


async def test_a_lost_task_that_is_claimed_again_here_runs_once(harness: Harness) -> None:
    events: list[str] = []
    begun = asyncio.Event()

    @harness.queue.task("slow", max_attempts=5)
    async def slow() -> None:
        begun.set()
        number = len(events)
        events.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events[number] = "stopped"
            raise

    async with working(harness.queue) as worker:
        handle = await slow.enqueue()
        await begun.wait()
        lease = await harness.queue.lease(handle.id, worker.held[handle.id.ulid], worker="w1")
        await harness.age(lease, 3600)
        await harness.reaper.tick()
        if (await harness.task(handle.id)).state is State.RETRYING:
            await harness.make_due(handle.id)
            await harness.promoter.tick()
        await until(lambda: events == ["stopped", "begun"])

        assert worker.slots.shared_slots.taken == 1


async def test_a_later_refusal_of_redis_is_retried(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @harness.queue.task("quick")
    async def quick() -> str:
        return "done"

    async with working(harness.queue) as worker:
        await ended(harness.queue, (await quick.enqueue()).id, State.COMPLETED)
        exchange = worker.session.exchange
        refused = asyncio.Event()

        async def refusing(*args: Any) -> Any:
            refused.set()
            raise ConfigError("url", "the server's ACL forbids this user a command: task/exchange")

        monkeypatch.setattr(worker.session, "exchange", refusing)
        worker.waiting_claim.end()
        await refused.wait()
        monkeypatch.setattr(worker.session, "exchange", exchange)

        await ended(harness.queue, (await quick.enqueue()).id, State.COMPLETED)


async def test_a_refusal_of_redis_at_the_start_ends_the_worker(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = harness.queue.worker(types=["any"])

    async def refusing(*args: Any) -> Any:
        raise ConfigError("url", "the server refuses this user or password")

    monkeypatch.setattr(worker.session, "exchange", refusing)

    with pytest.raises(ConfigError):
        await asyncio.wait_for(worker.run(), 10)


async def test_the_start_of_a_long_prefetched_task_is_reported(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = leases.start

    async def noted(shard: Any, rows: list[leases.HeldLease]) -> list[str]:
        started.extend(row.task for row in rows)
        return await start(shard, rows)

    monkeypatch.setattr(leases, "start", noted)

    @harness.queue.task("long")
    async def long() -> None:
        await asyncio.Event().wait()

    async with working(harness.queue, concurrency=2) as worker:
        handle = await long.enqueue()
        await until(lambda: worker.slots.running)
        (running,) = worker.slots.running.values()
        worker.prefetch.note([running.grant], 0)

        await until(lambda: started == [handle.id.ulid])
        await until(lambda: not worker.prefetch.tokens)


async def test_a_released_prefetched_task_is_forgotten(harness: Harness) -> None:
    worker = harness.queue.worker(types=["any"])
    grant = Grant("01M7J64DSGF3S95GBFHQG3WX00", "1:x", 0, 0, 0, b"", b"")
    worker.held[grant.task] = grant.token
    worker.prefetch.note([grant], 0)

    await worker.release([grant])

    assert (worker.held, worker.prefetch.tokens) == ({}, {})


async def test_a_background_loop_that_raises_is_restarted(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0
    again = asyncio.Event()

    async def breaking() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("a payload")
        again.set()

    running = asyncio.create_task(restarting(breaking))
    await asyncio.wait_for(again.wait(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    assert "ValueError" in str(vars(caplog.records[0])["raised"])
    assert "a payload" not in caplog.text


async def test_every_task_that_ends_is_counted(harness: Harness) -> None:
    @harness.queue.task("good")
    async def good() -> None: ...

    @harness.queue.task("bad", max_attempts=1)
    async def bad() -> None:
        raise ValueError("no")

    @harness.queue.task("early", ack="before")
    async def early() -> None: ...

    async with working(harness.queue) as worker:
        for function in (good, bad, early):
            await function.enqueue()
        await until(lambda: worker.pace.finished == 3)


@pytest.mark.parametrize(
    "options",
    [{"name": "my worker"}, {"name": 5}, {"name": "x" * 300}, {"name": ""}]
    + [{"concurrency": number} for number in (0, -3, 2.5, "x", True)],
)
def test_invalid_worker_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        Queue("q", url="redis://127.0.0.1:1").worker(types=["any"], **options)
