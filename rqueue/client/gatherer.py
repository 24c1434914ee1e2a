"""Gathers concurrent submits of one process into few script calls, without being asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.client.earlier import completed_before
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store.submits import Draft, Taken, submit, submit_one

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.store.shard import Shard

# Those whose time is up this close together are told together.
GRAIN_SEC = 0.01

# A submit whose caller waits for its answer, and until when. A plain tuple: there are many.
Waiting = tuple[Draft, "asyncio.Future[Taken]", float]


class Gatherer:
    """Sends the first submit at once; those that come while it is under way go together next.

    One alone waits for nobody. One that is cancelled takes no other with it. A call's time holds
    with its wait for the calls before it. Where there is a `past`, it is asked first for a task
    that has completed under the same key.
    """

    def __init__(self, shard: Shard, past: ArchiveReader | None = None) -> None:
        self.shard = shard
        self.past = past
        self.timeout_sec = shard.runner.connection.timeout_sec
        self.busy = False
        self.waiting: list[Waiting] = []
        self.sent: list[Waiting] = []
        self.flushing: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    async def submit(self, draft: Draft) -> Taken:
        """The answer for one draft; raises what it was refused with."""
        if self.past is not None:
            known = await completed_before(self.past, [draft])
            if known:
                return known[0]
        if self.busy:
            return await self.gathered(draft)
        self.busy = True
        try:
            answer = await submit_one(self.shard, draft)
        finally:
            self.next()
        if isinstance(answer, RQueueError):
            raise answer
        return answer

    def gathered(self, draft: Draft) -> asyncio.Future[Taken]:
        """The answer for a draft that goes with the next call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Taken] = loop.create_future()
        until = loop.time() + self.timeout_sec
        self.waiting.append((draft, future, until))
        if self.timer is None:
            # One timer for all: those who come later are looked at when it has run out.
            self.timer = loop.call_at(until, self.expire)
        return future

    def expire(self) -> None:
        """Tells those whose time is up; what was sent for them may still be carried out."""
        loop = asyncio.get_running_loop()
        self.timer, now = None, loop.time() + GRAIN_SEC
        for _, future, until in (*self.sent, *self.waiting):
            if future.done():
                continue
            if until > now:
                self.timer = loop.call_at(until, self.expire)
                return
            settle(future, StoreUnavailable("task/submit: no answer in time"))

    def next(self) -> None:
        """Sends what has gathered, if anything has."""
        self.sent = []
        self.busy = bool(self.waiting)
        if self.busy:
            # Kept, so that the task is not collected while it runs.
            self.flushing = asyncio.get_running_loop().create_task(self.flush())

    async def flush(self) -> None:
        """One call for all that wait now; each gets its own answer or the call's error."""
        batch = [one for one in self.waiting if not one[1].done()]
        self.sent, self.waiting = batch, []
        try:
            answers = await submit(self.shard, [one[0] for one in batch]) if batch else []
            for (_, future, _), answer in zip(batch, answers, strict=True):
                settle(future, answer)
        except Exception as error:  # whatever it is, those who wait are the ones to hear it
            for _, future, _ in batch:
                settle(future, error)
        finally:
            # Without an answer only where the flush itself was cancelled.
            for _, future, _ in batch:
                future.cancel()
            self.next()


def settle(future: asyncio.Future[Taken], answer: Taken | Exception) -> None:
    """Gives one caller its answer, unless it has gone."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
