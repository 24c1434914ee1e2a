"""Gathers concurrent submits of one process into few script calls, without being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError
from rqueue.store.submits import Draft, Taken, submit, submit_one

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

Waiting = tuple[Draft, "asyncio.Future[Taken]"]


class Gatherer:
    """Sends the first submit at once; those that come while it is under way go together next.

    One alone waits for nobody. One that is cancelled takes no other with it.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.busy = False
        self.waiting: list[Waiting] = []
        self.flushing: asyncio.Task[None] | None = None

    async def submit(self, draft: Draft) -> Taken:
        """The answer for one draft; raises what it was refused with."""
        if self.busy:
            future: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
            self.waiting.append((draft, future))
            return await future
        self.busy = True
        try:
            answer = await submit_one(self.shard, draft)
        finally:
            self.next()
        if isinstance(answer, RQueueError):
            raise answer
        return answer

    def next(self) -> None:
        """Sends what has gathered, if anything has."""
        self.busy = bool(self.waiting)
        if self.busy:
            # Kept, so that the task is not collected while it runs.
            self.flushing = asyncio.get_running_loop().create_task(self.flush())

    async def flush(self) -> None:
        """One call for all that wait now; each gets its own answer or the call's error."""
        batch, self.waiting = self.waiting, []
        try:
            answers: Sequence[Taken | RQueueError]
            try:
                answers = await submit(self.shard, [draft for draft, _ in batch])
            except RQueueError as error:
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                settle(future, answer)
        finally:
            for _, future in batch:
                future.cancel()
            self.next()


def settle(future: asyncio.Future[Taken], answer: Taken | RQueueError) -> None:
    """Gives one caller its answer, unless it has gone."""
    if future.done():
        return
    if isinstance(answer, RQueueError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
