"""Renews all leases of a process in one call, from a thread of its own: a handler that blocks the
event loop does not lose its lease, and a process that dies does.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.errors import RQueueError
from rqueue.model.attempt import Reason
from rqueue.services.naming import attempt_of
from rqueue.services.stopping import unless
from rqueue.store import leases
from rqueue.store.leases import Held

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

LOG = logging.getLogger("rqueue.worker")
BATCH = 1000
# How often the thread looks whether the event loop still turns, and when it says that it does not.
LOOK_SEC = 1.0
BLOCKED_SEC = 5.0
# How often it looks again at what a loop is doing that moves on meanwhile.
LOOKS = 3


@dataclass
class Beats:
    """What the heartbeat counts."""

    sent: int = 0
    missed: int = 0


class Heartbeat:
    """Keeps the leases of one worker. `held` is the worker's own table, read as it stands;
    `lost` is called in this thread with each lease that is no longer held, and why.
    """

    def __init__(
        self,
        shard: Shard,
        consumer: str,
        held: Mapping[str, str],
        *,
        every_sec: float,
        lost: Callable[[Held, str], object],
    ) -> None:
        self.shard = shard
        self.consumer = consumer
        self.held = held
        self.every_sec = every_sec
        self.lost = lost
        self.beats = Beats()
        self.turned = time.monotonic()
        self.blocked = False
        self.stopping = threading.Event()
        self.ending = asyncio.Event()
        self.own: asyncio.AbstractEventLoop | None = None
        self.owner = threading.get_ident()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self.run, name="rqueue-heartbeat", daemon=True)

    def start(self) -> None:
        """Begins to renew, for the event loop of the thread that calls this."""
        self.owner = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread, also in the middle of a beat; returns when it is gone."""
        self.stopping.set()
        if self.own is not None:
            with suppress(RuntimeError):
                self.own.call_soon_threadsafe(self.ending.set)
        if self.thread.is_alive():
            self.thread.join()

    def turn(self) -> None:
        """The worker's event loop says that it turns."""
        self.turned = time.monotonic()

    def run(self) -> None:
        """The thread: an event loop of its own, with connections of its own."""
        with asyncio.Runner() as runner:
            self.own = runner.get_loop()
            due = time.monotonic() + self.every_sec
            while not self.stopping.wait(min(LOOK_SEC, self.every_sec)):
                self.look()
                if time.monotonic() >= due:
                    due = time.monotonic() + self.every_sec
                    runner.run(unless(self.ending, self.tick(), None))
            runner.run(self.shard.runner.connection.aclose())

    async def tick(self) -> None:
        """Renews everything once; what cannot be reached now is tried at the next beat."""
        held = [Held(task, token) for task, token in list(self.held.items())]
        try:
            for start in range(0, len(held), BATCH):
                page = held[start : start + BATCH]
                words = await leases.renew(self.shard, self.consumer, page)
                for lease, word in zip(page, words, strict=True):
                    self.judge(lease, word)
            self.beats.sent += 1
        except Exception as error:
            # Whatever it is, the next beat must come: without it every lease here is lost.
            self.beats.missed += 1
            told = str(error) if isinstance(error, RQueueError) else type(error).__name__
            LOG.warning("leases not renewed", extra={"leases": len(held), "error": told})

    def judge(self, lease: Held, word: str) -> None:
        """Tells the worker of a lease that is not held, unless it has ended meanwhile."""
        if word == "OK" or self.held.get(lease.task) != lease.token:
            return
        self.lost(lease, word if word in (Reason.TIMEOUT, Reason.CLAIM_EXPIRED) else "lost")

    def look(self) -> None:
        """Says once when the worker's event loop is blocked, and by what."""
        silent = time.monotonic() - self.turned
        if silent < BLOCKED_SEC:
            self.blocked = False
        elif not self.blocked:
            self.blocked = True
            LOG.warning("event loop blocked", extra={"seconds": round(silent), **self.blocker()})

    def blocker(self) -> dict[str, str]:
        """What the worker's event loop is doing: the code, and of an attempt its task and type."""
        for _ in range(LOOKS):
            task = self.current()
            frame = sys._current_frames().get(self.owner)
            where = "".join(traceback.format_stack(frame, limit=5)) if frame else "?"
            # One that turns after all is at other code by now, which is not to blame.
            if self.current() is task:
                break
        return {**attempt_of(task.get_name() if task is not None else ""), "by": where}

    def current(self) -> asyncio.Task[Any] | None:
        """The task that the worker's event loop is running."""
        return asyncio.current_task(self.loop) if self.loop is not None else None
