"""A scheduler without Redis: it stops its services, waits, and continues later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.process import scheduler as module
from rqueue.process.scheduler import Term, lead, leader, yield_term
from tests.harness import Harness
from tests.process.fake_services import Shifted, Slow, Ticking, candidate, running


class Election:
    """The election calls, which a test can let fail."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.changed = asyncio.Condition()
        self.refused = 0

    async def lead(self, shard: Any, owner: str, *, ttl_ms: int) -> Term:
        if self.error is None:
            return await lead(shard, owner, ttl_ms=ttl_ms)
        async with self.changed:
            self.refused += 1
            self.changed.notify_all()
        raise self.error

    async def yield_term(self, shard: Any, owner: str) -> bool:
        if self.error is not None:
            raise self.error
        return await yield_term(shard, owner)

    async def refuses(self, times: int) -> None:
        """Returns after so many failed calls."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.refused >= times)


@pytest.fixture
def election(monkeypatch: pytest.MonkeyPatch) -> Election:
    found = Election()
    monkeypatch.setattr(module, "lead", found.lead)
    monkeypatch.setattr(module, "yield_term", found.yield_term)
    return found


@pytest.mark.parametrize(
    "error", [StoreUnavailable("no connection"), ConfigError("url", "forbids this")]
)
async def test_a_scheduler_leads_when_redis_is_available_again(
    harness: Harness, election: Election, error: Exception
) -> None:
    service = Ticking()
    election.error = error

    async with running(candidate(harness, "a", service)):
        await election.refuses(2)
        assert service.ticks == 0
        election.error = None
        await service.ticked(1)


async def test_a_leader_keeps_ticking_while_its_term_can_be_trusted(
    harness: Harness, election: Election
) -> None:
    service = Slow()

    async with running(candidate(harness, "a", service, ttl_sec=3)):
        await service.begun.wait()
        election.error = StoreUnavailable("no connection")
        await election.refuses(1)

        assert not service.cut.is_set()
        election.error = None


async def test_a_leader_that_cannot_renew_stops_before_its_term_ends(
    harness: Harness, election: Election
) -> None:
    service, clock = Slow(), Shifted()

    async with running(candidate(harness, "a", service, ttl_sec=3, clock=clock)):
        await service.begun.wait()
        election.error = StoreUnavailable("no connection")
        await election.refuses(1)
        clock.by_sec = 2.8
        await service.cut.wait()

        term = await leader(harness.queue._internals.shard)
        assert term is not None
        assert term.owner == "a"
        service.begun.clear()
        election.error = None
        await service.begun.wait()


async def test_a_hanging_call_does_not_keep_the_services_running_beyond_the_term(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, hangs = Slow(), asyncio.Event()
    scheduler = candidate(harness, "a", service)

    async def hanging(shard: Any, owner: str, *, ttl_ms: int) -> Term:
        hangs.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with running(scheduler):
        await service.begun.wait()
        monkeypatch.setattr(module, "lead", hanging)
        await hangs.wait()

        await service.cut.wait()


async def test_a_stop_does_not_wait_for_an_unavailable_server(
    harness: Harness, election: Election
) -> None:
    election.error = StoreUnavailable("no connection")

    async with running(candidate(harness, "a", Ticking())):
        await election.refuses(1)

    assert await leader(harness.queue._internals.shard) is None


async def test_a_stop_does_not_wait_for_a_call_that_hangs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = asyncio.Event()

    async def hanging(*_: Any, **__: Any) -> bool:
        hangs.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(module, "lead", hanging)
    monkeypatch.setattr(module, "yield_term", hanging)
    monkeypatch.setattr(module, "YIELD_SEC", 0.01)

    async with running(candidate(harness, "a", Ticking())):
        await hangs.wait()


async def test_requests_are_sent_with_growing_pauses(
    harness: Harness, election: Election, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def noted(stop: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(module, "paused", noted)
    election.error = StoreUnavailable("no connection")

    async with running(candidate(harness, "a", Ticking())):
        await election.refuses(12)

    assert min(pauses) >= 0.1
    assert pauses[0] < 0.3
    assert 2.5 <= min(pauses[7:]) <= max(pauses) <= 5
