"""Of several schedulers one leads; when it stops or is killed, another takes over."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from rqueue import State
from rqueue.clock import SYSTEM
from rqueue.errors import ScriptFault, StoreUnavailable
from rqueue.process.scheduler import lead, leader, owner_of
from rqueue.services import standard_services
from tests.harness import Harness
from tests.process.fake_services import Slow, Ticking, candidate, running

LONG_MS = 600_000


async def leads(harness: Harness) -> str | None:
    """The name of the leader."""
    term = await leader(harness.queue._internals.shard)
    return term.owner if term else None


async def test_a_single_scheduler_leads_and_ticks(harness: Harness) -> None:
    service = Ticking()
    scheduler = candidate(harness, "a", service, ttl_sec=600)

    async with running(scheduler):
        await service.ticked(3)

        assert await leads(harness) == "a"
        assert scheduler.term is not None
        assert (scheduler.term.owner, scheduler.term.epoch) == ("a", 1)

    figures = scheduler.figures["ticking"]
    assert (figures.ticks >= 2, figures.faults) == (True, 0)


async def test_a_second_scheduler_does_not_tick_while_the_first_leads(harness: Harness) -> None:
    first, second = Ticking(), Ticking()
    other = candidate(harness, "b", second)

    async with running(candidate(harness, "a", first, ttl_sec=600)):
        await first.ticked(1)
        assert await other.request_term(asyncio.Event()) is None
        await first.ticked(1)

    assert other.term is not None
    assert (other.term.owner, second.ticks) == ("a", 0)


async def test_a_stopped_scheduler_yields_immediately(harness: Harness) -> None:
    service = Ticking()
    scheduler = candidate(harness, "a", service, ttl_sec=600)

    async with running(scheduler) as stop:
        await service.ticked(1)
        stop()

    assert await leads(harness) is None
    term = await lead(harness.queue._internals.shard, "b", ttl_ms=LONG_MS)
    assert (term.owner, term.epoch) == ("b", 2)


async def test_another_scheduler_takes_over_from_a_stopped_one(harness: Harness) -> None:
    first, second = Ticking(), Ticking()

    async with running(candidate(harness, "a", first, ttl_sec=600)) as stop:
        await first.ticked(1)
        async with running(candidate(harness, "b", second)):
            stop()
            await second.ticked(1)

            assert await leads(harness) == "b"


async def test_another_scheduler_takes_over_from_a_killed_one(harness: Harness) -> None:
    killed = await lead(harness.queue._internals.shard, "a", ttl_ms=LONG_MS)
    service = Ticking()
    scheduler = candidate(harness, "b", service)
    assert await scheduler.request_term(asyncio.Event()) is None

    async with running(scheduler):
        await harness.client.hset(harness.keys.leader(), "until_ms", 1)
        await service.ticked(1)

        assert await leads(harness) == "b"
        assert scheduler.term is not None
        assert scheduler.term.epoch == killed.epoch + 1


async def test_a_cancelled_scheduler_yields(harness: Harness) -> None:
    service = Ticking()
    work = asyncio.create_task(candidate(harness, "a", service, ttl_sec=600).run(asyncio.Event()))
    await service.ticked(1)

    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    assert await leads(harness) is None


async def test_a_scheduler_that_lost_its_term_stops_ticking(harness: Harness) -> None:
    service = Slow()

    async with running(candidate(harness, "a", service)):
        await service.begun.wait()
        await harness.client.hset(
            harness.keys.leader(), mapping={"owner": "b", "until_ms": 9_999_999_999_999}
        )
        await service.cut.wait()

        assert await leads(harness) == "b"

    assert await leads(harness) == "b"


async def test_a_slow_service_delays_no_other(harness: Harness) -> None:
    slow, quick = Slow(), Ticking()

    async with running(candidate(harness, "a", slow, quick)):
        await slow.begun.wait()
        await quick.ticked(5)

        assert not slow.cut.is_set()

    assert slow.cut.is_set()


async def test_a_failed_tick_is_logged_and_counted_and_repeated(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    service, other = Ticking("poor"), Ticking("other")
    service.faults = [
        ValueError("a bug"),
        ScriptFault("queue/x", ["ODD"]),
        asyncio.CancelledError("from within"),
    ]
    scheduler = candidate(harness, "a", service, other)

    with caplog.at_level(logging.DEBUG, "rqueue.scheduler"):
        async with running(scheduler):
            await service.ticked(5)

    figures = scheduler.figures
    assert (figures["poor"].faults, figures["poor"].failing, figures["other"].faults) == (3, 0, 0)
    failed = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert [line.getMessage() for line in failed] == [
        "poor failed",
        "poor failed: the move queue/x returned an unexpected reply: ['ODD']; please report this",
        "poor failed",
    ]
    raised = [getattr(line, "raised", "") for line in failed]
    assert raised == ["ValueError", "", "asyncio.exceptions.CancelledError"]
    assert "a bug" not in caplog.text
    assert "from within" not in caplog.text


async def test_an_unavailable_server_is_logged_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    service = Ticking("poor")
    service.faults = [StoreUnavailable("here")] * 3
    scheduler = candidate(harness, "a", service)

    with caplog.at_level(logging.WARNING, "rqueue.scheduler"):
        async with running(scheduler):
            await service.ticked(4)

    assert scheduler.figures["poor"].faults == 3
    assert [line.getMessage() for line in caplog.records] == [
        "poor skipped, store unavailable: the server did not answer: here"
    ]


async def test_the_services_of_a_shard_do_their_work(harness: Harness) -> None:
    runtime = harness.queue._internals.runtime
    services = standard_services(
        harness.queue._internals.shard,
        runtime.reader,
        runtime.settings,
        clock=SYSTEM,
        random=Random(7),
    )
    lease = await harness.running("silent", max_attempts=3)
    await harness.age(lease, 60)
    await harness.queue.enqueue("soon", {}, delay=0.2)

    async with running(candidate(harness, "a", *services, ttl_sec=5)):
        (soon,) = await harness.queue.claim(worker="w2", types=["soon"], wait=20)
        await soon.start()
        await soon.complete()

    assert [service.name for service in services] == [
        "promoter", "reaper", "resumer", "rescorer", "sweeper", "janitor", "reporter",
        "drainer",
    ]  # fmt: skip
    lost = await harness.task(lease.id)
    assert (lost.state, lost.attempts, lost.reclaims) == (State.READY, 1, 1)
    assert (await harness.client.hget(harness.keys.stats(), "repaired")) is None


async def test_a_term_fits_the_lease(harness: Harness) -> None:
    settings = harness.queue._internals.runtime.settings

    assert owner_of("a", settings).ttl_sec == settings.lease_sec / 6
