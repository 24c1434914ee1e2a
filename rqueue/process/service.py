"""Periodic services, and the loop that runs one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.task.attempt.classify import is_cancelled, log_fields

if TYPE_CHECKING:
    from random import Random


LOG = logging.getLogger("rqueue.scheduler")
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0
# A service that is always due still yields to the event loop.
SHORTEST_PAUSE_SEC = 0.005
# Services that work all the time are logged at debug level.
ROUTINE = frozenset({"promoter", "rescorer", "inbox"})
NEXT = "next_ms"


class Service(Protocol):
    """A service: `tick` is called about every `interval_sec`, never twice at the same time.

    When the leadership changes, two schedulers may tick at the same time for a moment.
    """

    @property
    def name(self) -> str:
        """The name in logs and metrics."""
        ...

    @property
    def interval_sec(self) -> float:
        """The pause between two ticks."""
        ...

    def tick(self) -> Awaitable[object]:
        """Does the work that is due, in bounded steps; may be cancelled at any point."""
        ...


@runtime_checkable
class Timed(Protocol):
    """The result of a tick that states when the next one is due: server ms, 0 for the interval."""

    next_ms: int


@dataclass(frozen=True, slots=True)
class Paced:
    """A tick function with a name and an interval."""

    name: str
    interval_sec: float
    tick: Callable[[], Awaitable[object]]


@dataclass(slots=True)
class ServiceCounters:
    """Counters of a service: ticks, failures, failures in a row, and the sum of each kind
    of work.
    """

    ticks: int = 0
    faults: int = 0
    failing: int = 0
    work: dict[str, int] = field(default_factory=dict)


async def run_service(
    service: Service, counters: ServiceCounters, *, server_ms: Callable[[], float], random: Random
) -> None:
    """Ticks a service until cancelled; continues after any exception."""
    while True:
        try:
            done = await service.tick()
        except (Exception, asyncio.CancelledError) as error:
            # Any exception, also a CancelledError raised by the tick; only a cancel of this loop
            # ends it.
            if is_cancelled():
                raise
            counters.faults += 1
            counters.failing += 1
            report(service.name, error, counters.failing)
            pause = max(service.interval_sec, pause_sec(counters.failing, random))
        else:
            counters.failing = 0
            note_work(service.name, done, counters)
            pause = pause_after(service, done, server_ms())
        counters.ticks += 1
        await asyncio.sleep(pause)


def pause_sec(failures: int, random: Random) -> float:
    """How long to wait after so many failures in a row."""
    longest = min(LONGEST_PAUSE_SEC, FIRST_PAUSE_SEC * 2.0 ** min(failures, 10))
    return longest * random.uniform(0.5, 1.0)


def pause_after(service: Service, done: object, now_ms: float) -> float:
    """The pause after a tick: its interval, or less if the tick is due earlier."""
    pause = service.interval_sec
    if isinstance(done, Timed) and done.next_ms:
        pause = min(pause, (done.next_ms - now_ms) / 1000)
    return max(pause, SHORTEST_PAUSE_SEC)


def note_work(name: str, done: object, counters: ServiceCounters) -> None:
    """Adds up the work of a tick, and logs it if there was any."""
    did = work_of(done)
    for what, number in did.items():
        counters.work[what] = counters.work.get(what, 0) + number
    if did:
        level = logging.DEBUG if name in ROUTINE else logging.INFO
        LOG.log(level, "%s worked", name, extra={"service": name, **did})


def work_of(done: object) -> dict[str, int]:
    """The integers of a tick's result that are not zero."""
    if not is_dataclass(done):
        return {}
    found = {each.name: getattr(done, each.name) for each in fields(done) if each.name != NEXT}
    return {name: n for name, n in found.items() if type(n) is int and n}


def report(name: str, error: BaseException, failing: int) -> None:
    """Logs a failed tick. An unavailable server is a warning once, then debug. Of an unexpected
    exception only the location is logged, since its text may contain a payload.
    """
    fields = {"service": name, "failing": failing}
    if isinstance(error, StoreUnavailable):
        level = logging.WARNING if failing == 1 else logging.DEBUG
        LOG.log(level, "%s skipped, store unavailable: %s", name, error, extra=fields)
    elif isinstance(error, RQueueError):
        # Without its cause, since a server's error text repeats the command.
        LOG.error("%s failed: %s", name, error, extra=fields)
    else:
        LOG.error("%s failed", name, extra={**fields, **log_fields(error)})
