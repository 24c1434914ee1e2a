"""A service is a body to call again and again; this is the loop around it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.policy.fault import is_cancelled, told
from rqueue.policy.leading import pause_sec

if TYPE_CHECKING:
    from random import Random

log = logging.getLogger("rqueue.scheduler")

# Even a service that is always late leaves the loop to others for a moment.
SHORTEST_PAUSE_SEC = 0.005
# Services that work all day: a line each time would say nothing.
ROUTINE = frozenset({"promoter", "rescorer", "inbox"})
NEXT = "next_ms"


class Service(Protocol):
    """What a scheduler runs: `tick` about every `interval_sec`, and never twice at once.

    Any number of schedulers may tick at the same time for a moment, when leadership passes on.
    """

    @property
    def name(self) -> str:
        """How it is called in logs and figures."""
        ...

    @property
    def interval_sec(self) -> float:
        """How long to pause between two ticks."""
        ...

    def tick(self) -> Awaitable[object]:
        """Does what there is to do now, in bounded steps; may be cancelled anywhere."""
        ...


@runtime_checkable
class Timed(Protocol):
    """What a tick answers that knows when it has to come again: server ms, 0 for not before the
    interval.
    """

    next_ms: int


@dataclass(frozen=True, slots=True)
class Paced:
    """A tick that has no name and interval of its own, with them."""

    name: str
    interval_sec: float
    tick: Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Figures:
    """How often a service ticked, how often that failed, and how often in a row by now; and what
    its ticks did, each kind of work added up.
    """

    ticks: int = 0
    faults: int = 0
    failing: int = 0
    work: dict[str, int] = field(default_factory=dict)


async def keep(
    service: Service, figures: Figures, *, server_ms: Callable[[], float], random: Random
) -> None:
    """Ticks for ever, whatever a tick raises; ends by being cancelled."""
    while True:
        try:
            done = await service.tick()
        except (Exception, asyncio.CancelledError) as error:
            # Whatever it is, the next tick must come, unless it is this loop that shall end.
            if is_cancelled():
                raise
            figures.faults += 1
            figures.failing += 1
            report(service.name, error, figures.failing)
            pause = max(service.interval_sec, pause_sec(figures.failing, random))
        else:
            figures.failing = 0
            note_work(service.name, done, figures)
            pause = pause_after(service, done, server_ms())
        figures.ticks += 1
        await asyncio.sleep(pause)


def pause_after(service: Service, done: object, now_ms: float) -> float:
    """How long to pause after a tick: its interval, or less where it said so."""
    pause = service.interval_sec
    if isinstance(done, Timed) and done.next_ms:
        pause = min(pause, (done.next_ms - now_ms) / 1000)
    return max(pause, SHORTEST_PAUSE_SEC)


def note_work(name: str, done: object, figures: Figures) -> None:
    """Adds up what a tick did, and says so where it did something."""
    did = work_of(done)
    for what, number in did.items():
        figures.work[what] = figures.work.get(what, 0) + number
    if did:
        level = logging.DEBUG if name in ROUTINE else logging.INFO
        log.log(level, "%s worked", name, extra={"service": name, **did})


def work_of(done: object) -> dict[str, int]:
    """The numbers in what a tick answers that are not zero."""
    if not is_dataclass(done):
        return {}
    found = {each.name: getattr(done, each.name) for each in fields(done) if each.name != NEXT}
    return {name: n for name, n in found.items() if type(n) is int and n}


def report(name: str, error: BaseException, failing: int) -> None:
    """Logs a failed tick. A server that is away is told once, not at each try; of what is no
    error of ours only where it was raised, since its text may hold a payload.
    """
    fields = {"service": name, "failing": failing}
    if isinstance(error, StoreUnavailable):
        level = logging.WARNING if failing == 1 else logging.DEBUG
        log.log(level, "%s cannot work: %s", name, error, extra=fields)
    elif isinstance(error, RQueueError):
        # Without its cause: a server's text repeats what it was sent.
        log.error("%s failed: %s", name, error, extra=fields)
    else:
        log.error("%s failed", name, extra={**fields, **told(error)})
