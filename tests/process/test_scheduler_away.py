"""A scheduler without Redis: it stops its services, waits, and continues later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.process import scheduler as module
from rqueue.process.scheduler import Term, lead, leader, yield_lead
from tests.harness import Harness
from tests.process.standin import Shifted, Slow, Ticking, candidate, running


class Away:
    """The election calls, which a test can let fail."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = asyncio.Condition()
        self.refused = 0

    async def lead(self, shard: Any, owner: str, *, ttl_ms: int) -> Term:
        if self.error is None:
            return await lead(shard, owner, ttl_ms=ttl_ms)
        async with self.asked:
            self.refused += 1
            self.asked.notify_all()
        raise self.error

    async def yield_lead(self, shard: Any, owner: str) -> bool:
        if self.error is not None:
            raise self.error
        return await yield_lead(shard, owner)

    async def refuses(self, times: int) -> None:
        """Returns after so many failed calls."""
        async with self.asked:
            await self.asked.wait_for(lambda: self.refused >= times)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    found = Away()
    monkeypatch.setattr(module, "lead", found.lead)
    monkeypatch.setattr(module, "yield_lead", found.yield_lead)
    return found


@pytest.mark.parametrize("error", [StoreUnavailable("here"), ConfigError("url", "forbids this")])
async def test_it_leads_when_the_server_is_back(
    harness: Harness, away: Away, error: Exception
) -> None:
    service = Ticking()
    away.error = error

    async with running(candidate(harness, "a", service)):
        await away.refuses(2)
        assert service.ticks == 0
        away.error = None
        await service.ticked(1)


async def test_a_leader_ticks_on_as_long_as_its_term_can_be_trusted(
    harness: Harness, away: Away
) -> None:
    service = Slow()

    async with running(candidate(harness, "a", service, ttl_sec=3)):
        await service.begun.wait()
        away.error = StoreUnavailable("here")
        await away.refuses(1)

        assert not service.cut.is_set()
        away.error = None


async def test_a_leader_that_cannot_renew_stops_before_its_term_ends(
    harness: Harness, away: Away
) -> None:
    service, clock = Slow(), Shifted()

    async with running(candidate(harness, "a", service, ttl_sec=3, clock=clock)):
        await service.begun.wait()
        away.error = StoreUnavailable("here")
        await away.refuses(1)
        clock.by_sec = 2.8
        await service.cut.wait()

        term = await leader(harness.queue._internals.shard)
        assert term is not None
        assert term.owner == "a"
        service.begun.clear()
        away.error = None
        await service.begun.wait()


async def test_a_call_that_hangs_does_not_hold_the_services_beyond_the_term(
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


async def test_a_stop_does_not_wait_for_an_unavailable_server(harness: Harness, away: Away) -> None:
    away.error = StoreUnavailable("here")

    async with running(candidate(harness, "a", Ticking())):
        await away.refuses(1)

    assert await leader(harness.queue._internals.shard) is None


async def test_a_stop_does_not_wait_for_a_call_that_hangs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = asyncio.Event()

    async def hanging(*_: Any, **__: Any) -> bool:
        hangs.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(module, "lead", hanging)
    monkeypatch.setattr(module, "yield_lead", hanging)
    monkeypatch.setattr(module, "YIELD_SEC", 0.01)

    async with running(candidate(harness, "a", Ticking())):
        await hangs.wait()


async def test_it_never_asks_without_a_pause_and_pauses_longer_and_longer(
    harness: Harness, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def noted(stop: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(module, "paused", noted)
    away.error = StoreUnavailable("here")

    async with running(candidate(harness, "a", Ticking())):
        await away.refuses(12)

    assert min(pauses) >= 0.1
    assert pauses[0] < 0.3
    assert 2.5 <= min(pauses[7:]) <= max(pauses) <= 5
