"""Follows what happens in a queue: from a place on, without changing anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from rqueue.clock import SYSTEM
from rqueue.errors import EventsMissed, InvalidTask, StoreUnavailable
from rqueue.model.event import CATALOGUE
from rqueue.store.events import ENTRY, PAGE, START, happened, newest, oldest_if_trimmed, read_events

if TYPE_CHECKING:
    from rqueue.model.event import Event
    from rqueue.model.ids import TaskId
    from rqueue.store.shard import Shard

T = TypeVar("T")

log = logging.getLogger("rqueue.events")

NOW = "$"
# A read waits at the server for at most so long, and is then asked again.
BLOCK_SEC = 5.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are asked for: names and patterns of names, and one task; none means all."""

    names: tuple[str, ...] = ()
    task: TaskId | None = None

    def fits(self, event: Event) -> bool:
        """Whether it is one of them."""
        named = not self.names or any(fnmatchcase(event.name, one) for one in self.names)
        return named and (self.task is None or self.task in event.tasks)


def wanted_of(names: Iterable[str], task: TaskId | None) -> Wanted:
    """What is asked for, or InvalidTask where a name means no event."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    for name in chosen:
        if not any(fnmatchcase(known, str(name)) for known in CATALOGUE):
            raise InvalidTask("names", f"{name!r} means no event; docs/events.md has them all")
    return Wanted(chosen, task)


def place_of(after: str | None) -> str | None:
    """Where to begin, or InvalidTask."""
    if after is None or after == NOW:
        return after
    if not isinstance(after, str) or ENTRY.fullmatch(after) is None:
        raise InvalidTask("after", "is the id of an event such as 1700000000000-0, or $ for now")
    return after


class Follower:
    """Reads on from a place: what is there, and then what comes, until nothing has come for
    `wait_sec`; for ever where that is None. A server that is away is waited for, for as long.
    """

    def __init__(
        self, shard: Shard, after: str | None, wanted: Wanted, *, wait_sec: float | None
    ) -> None:
        self.shard = shard
        self.place = START if after is None else after
        self.wanted = wanted
        self.wait_sec = wait_sec
        self.block_sec = min(BLOCK_SEC, shard.terms.park_ms / 1000)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events that are wanted, in their order; raises EventsMissed where some are gone."""
        while True:
            page = await self.patiently(self.page)
            for event in page:
                self.place = event.id
                if self.wanted.fits(event):
                    yield event
            if len(page) < PAGE and not await self.patiently(self.comes):
                return

    async def page(self) -> list[Event]:
        """The next ones that are there."""
        if self.place == NOW:
            self.place = await newest(self.shard)
        found = await read_events(self.shard, self.place)
        if found and self.place != START:
            # After the read: what was trimmed in between is looked for, too.
            oldest = await oldest_if_trimmed(self.shard, self.place)
            if oldest is not None:
                raise EventsMissed(self.place, oldest)
        return found

    async def comes(self) -> bool:
        """Whether another one comes in time."""
        until = None if self.wait_sec is None else SYSTEM.monotonic() + self.wait_sec
        while True:
            left = self.block_sec if until is None else until - SYSTEM.monotonic()
            if left <= 0:
                return False
            if await happened(self.shard, self.place, min(left, self.block_sec)):
                return True

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What a call answers, asked again while the server is away."""
        began, pause = SYSTEM.monotonic(), FIRST_PAUSE_SEC
        while True:
            try:
                return await ask()
            except StoreUnavailable as error:
                away = SYSTEM.monotonic() - began
                if self.wait_sec is not None and away >= self.wait_sec:
                    raise
                level = logging.WARNING if pause == FIRST_PAUSE_SEC else logging.DEBUG
                log.log(level, "events cannot be read: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SEC)
