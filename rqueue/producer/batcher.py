"""Batches concurrent submits of one process into few calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.core.submit import Draft, SubmitResult, submit, submit_one
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.producer.earlier import completed_before

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.store.shard import Shard

# Timeouts this close together are handled together.
GRAIN_SEC = 0.01

# A draft, its caller's future, and until when it waits. A plain tuple: there are many.
Waiting = tuple[Draft, "asyncio.Future[SubmitResult]", float]


class Batcher:
    """Sends the first submit immediately; those that arrive while it is in progress are sent
    together next.

    A single submit is never delayed. A cancelled one does not cancel others. A call's timeout
    includes the wait for the calls before it. With an `archive`, tasks that have completed there
    under the same idempotency key are found first.
    """

    def __init__(self, shard: Shard, archive: ArchiveReader | None = None) -> None:
        self.shard = shard
        self.archive = archive
        self.timeout_sec = shard.runner.connection.timeout_sec
        self.busy = False
        self.waiting: list[Waiting] = []
        self.sent: list[Waiting] = []
        self.flushing: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    async def submit(self, draft: Draft) -> SubmitResult:
        """The result for one draft; raises its error."""
        if self.archive is not None:
            known = await completed_before(self.archive, [draft])
            if known:
                return known[0]
        if self.busy:
            return await self.batched(draft)
        self.busy = True
        try:
            answer = await submit_one(self.shard, draft)
        finally:
            self.next()
        if isinstance(answer, RQueueError):
            raise answer
        return answer

    def batched(self, draft: Draft) -> asyncio.Future[SubmitResult]:
        """The result for a draft that is sent with the next call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SubmitResult] = loop.create_future()
        until = loop.time() + self.timeout_sec
        self.waiting.append((draft, future, until))
        if self.timer is None:
            # One timer for all: later submits are checked when it has run out.
            self.timer = loop.call_at(until, self.expire)
        return future

    def expire(self) -> None:
        """Fails submits whose time is up; what was sent for them may still be carried out."""
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
        """Sends the submits that have arrived meanwhile, if any."""
        self.sent = []
        self.busy = bool(self.waiting)
        if self.busy:
            # Kept, so that the task is not collected while it runs.
            self.flushing = asyncio.get_running_loop().create_task(self.flush())

    async def flush(self) -> None:
        """One call for all waiting submits; each gets its own result or the call's error."""
        batch = [one for one in self.waiting if not one[1].done()]
        self.sent, self.waiting = batch, []
        try:
            answers = await submit(self.shard, [one[0] for one in batch]) if batch else []
            for (_, future, _), answer in zip(batch, answers, strict=True):
                settle(future, answer)
        except Exception as error:  # raised in the callers that wait
            for _, future, _ in batch:
                settle(future, error)
        finally:
            # Without an answer only where the flush itself was cancelled.
            for _, future, _ in batch:
                future.cancel()
            self.next()


def settle(future: asyncio.Future[SubmitResult], answer: SubmitResult | Exception) -> None:
    """Sets a caller's result, unless the caller has gone."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
