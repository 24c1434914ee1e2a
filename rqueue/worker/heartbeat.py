"""Renews the leases of a worker from a separate thread, so that a handler that blocks the event
loop does not lose its lease.
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

from rqueue.clock import unless
from rqueue.core import leases
from rqueue.core.leases import HeldLease
from rqueue.errors import RQueueError
from rqueue.task.attempt.outcome import Reason
from rqueue.worker.stats import attempt_of

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

LOG = logging.getLogger("rqueue.worker")
BATCH = 1000
# How often the thread checks the event loop, and after how long it reports it as blocked.
CHECK_SEC = 1.0
BLOCKED_SEC = 5.0
# How often it samples a loop that changes its task during the sample.
SAMPLES = 3


@dataclass
class Beats:
    """Counters of the heartbeat."""

    sent: int = 0
    missed: int = 0


class Heartbeat:
    """Renews the leases of one worker. `held` is the worker's own table, read without a copy.
    `lost` is called in this thread with each lease that is no longer held, and the reason.
    """

    def __init__(
        self,
        shard: Shard,
        consumer: str,
        held: Mapping[str, str],
        *,
        every_sec: float,
        lost: Callable[[HeldLease, str], object],
    ) -> None:
        self.shard = shard
        self.consumer = consumer
        self.held = held
        self.every_sec = every_sec
        self.lost = lost
        self.beats = Beats()
        self.alive_at = time.monotonic()
        self.blocked = False
        self.stopping = threading.Event()
        self.ending = asyncio.Event()
        self.own: asyncio.AbstractEventLoop | None = None
        self.owner = threading.get_ident()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self.run, name="rqueue-heartbeat", daemon=True)

    def start(self) -> None:
        """Starts the thread for the running event loop."""
        self.owner = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread, also during a call to Redis; returns when it has ended."""
        self.stopping.set()
        if self.own is not None:
            with suppress(RuntimeError):
                self.own.call_soon_threadsafe(self.ending.set)
        if self.thread.is_alive():
            self.thread.join()

    def mark_alive(self) -> None:
        """Records that the worker's event loop is running."""
        self.alive_at = time.monotonic()

    def run(self) -> None:
        """The thread, with its own event loop and its own connections."""
        with asyncio.Runner() as runner:
            self.own = runner.get_loop()
            due = time.monotonic() + self.every_sec
            while not self.stopping.wait(min(CHECK_SEC, self.every_sec)):
                self.check_loop()
                if time.monotonic() >= due:
                    due = time.monotonic() + self.every_sec
                    runner.run(unless(self.ending, self.tick(), None))
            runner.run(self.shard.runner.connection.aclose())

    async def tick(self) -> None:
        """Renews all leases once; a failure is repeated at the next beat."""
        held = [HeldLease(task, token) for task, token in list(self.held.items())]
        try:
            for start in range(0, len(held), BATCH):
                page = held[start : start + BATCH]
                words = await leases.renew(self.shard, self.consumer, page)
                for lease, word in zip(page, words, strict=True):
                    self.check_reply(lease, word)
            self.beats.sent += 1
        except Exception as error:
            # Any exception: without the next beat every lease would be lost.
            self.beats.missed += 1
            text = str(error) if isinstance(error, RQueueError) else type(error).__name__
            LOG.warning("leases not renewed", extra={"leases": len(held), "error": text})

    def check_reply(self, lease: HeldLease, word: str) -> None:
        """Reports a lease that is not held, unless the task has ended meanwhile."""
        if word == "OK" or self.held.get(lease.task) != lease.token:
            return
        self.lost(lease, word if word in (Reason.TIMEOUT, Reason.CLAIM_EXPIRED) else "lost")

    def check_loop(self) -> None:
        """Logs once when the worker's event loop is blocked, with the code that blocks it."""
        silent = time.monotonic() - self.alive_at
        if silent < BLOCKED_SEC:
            self.blocked = False
        elif not self.blocked:
            self.blocked = True
            LOG.warning("event loop blocked", extra={"seconds": round(silent), **self.blocker()})

    def blocker(self) -> dict[str, str]:
        """Where the worker's event loop is: the stack, and the task and type of an attempt."""
        for _ in range(SAMPLES):
            task = self.current()
            frame = sys._current_frames().get(self.owner)
            where = "".join(traceback.format_stack(frame, limit=5)) if frame else "?"
            # Otherwise the stack may be that of another task.
            if self.current() is task:
                break
        return {**attempt_of(task.get_name() if task is not None else ""), "by": where}

    def current(self) -> asyncio.Task[Any] | None:
        """The asyncio task that the worker's event loop is running."""
        return asyncio.current_task(self.loop) if self.loop is not None else None
