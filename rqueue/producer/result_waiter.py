"""Waits for the end of tasks and DAGs: one blocking connection per process for all callers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.core.claim import new_mailbox, read_mailbox
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK
from rqueue.task.dag import ENDED
from rqueue.task.state import FINAL

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard

# The server drops a subscription after KEEP_MS; renewing it this often is well inside that.
RESUBSCRIBE_SEC = 5.0
KEEP_MS = 60_000
PAUSE_SEC = 0.1
# A shorter read is not worth a round trip, and one of 0 would never end.
SHORTEST_SEC = 0.01
GONE = "GONE"


class ResultWaiter:
    """Notifies callers that a task has ended. Its listener runs only while a caller waits."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.mailbox = new_mailbox()
        self.waiting: dict[str, set[asyncio.Event]] = {}
        self.scopes: set[asyncio.Timeout] = set()
        self.listener: asyncio.Task[None] | None = None
        self.resubscribe_at = 0.0

    async def ended(self, task: str) -> None:
        """Returns when the task has ended or does not exist. Raises StoreUnavailable when the
        waiter is closed before.
        """
        scope = asyncio.timeout(None)
        self.scopes.add(scope)
        try:
            async with scope:
                await self.wait_until_notified(task)
        except TimeoutError:
            raise StoreUnavailable("the queue was closed while a result was waited for") from None
        finally:
            self.scopes.discard(scope)

    async def wait_until_notified(self, task: str) -> None:
        """Subscribes to a task, unless another caller has, and waits."""
        events = self.waiting.setdefault(task, set())
        event = asyncio.Event()
        events.add(event)
        try:
            if len(events) == 1:
                await self.subscribe([task])
            if self.listener is None or self.listener.done():
                self.listener = asyncio.get_running_loop().create_task(self.listen())
            await event.wait()
        finally:
            events.discard(event)
            if not events and self.waiting.get(task) is events:
                del self.waiting[task]

    async def aclose(self) -> None:
        """Ends the listener; callers that still wait fail immediately."""
        now = asyncio.get_running_loop().time()
        while self.scopes:
            self.scopes.pop().reschedule(now)
        if self.listener is not None:
            self.listener.cancel()
            await asyncio.gather(self.listener, return_exceptions=True)

    async def subscribe(self, tasks: list[str]) -> None:
        """Subscribes the mailbox to these tasks; those that have ended are notified now."""
        args: dict[str, Argument] = {"box": self.mailbox, "keep_ms": KEEP_MS}
        for start in range(0, len(tasks), CHUNK):
            page = tasks[start : start + CHUNK]
            reply = await self.shard.run("task/watch", args, [(task,) for task in page])
            for task, state in zip(page, map(text, ok("task/watch", "", reply)), strict=True):
                if state == GONE or state in FINAL or state in ENDED:
                    self.notify(task)

    async def listen(self) -> None:
        """Reads the mailbox while a caller waits; subscribes again at intervals, whatever
        deliveries come, since subscriptions expire and deliveries can be lost.
        """
        loop = asyncio.get_running_loop()
        self.resubscribe_at = loop.time() + RESUBSCRIBE_SEC
        while self.waiting:
            try:
                left = self.resubscribe_at - loop.time()
                if left < SHORTEST_SEC:
                    self.resubscribe_at = loop.time() + RESUBSCRIBE_SEC
                    await self.subscribe(list(self.waiting))
                    continue
                delivery = await read_mailbox(self.shard, self.mailbox, left)
                if delivery is not None and delivery.words[0] == "ended":
                    self.notify(delivery.words[1])
            except RQueueError:
                # A new mailbox: the old read may still block at the server and take the next
                # delivery.
                self.mailbox = new_mailbox()
                await asyncio.sleep(PAUSE_SEC)
                await self.resubscribe()

    async def resubscribe(self) -> None:
        """Subscribes the new mailbox to everything; after an error the next round tries again."""
        try:
            await self.subscribe(list(self.waiting))
        except RQueueError:
            return

    def notify(self, task: str) -> None:
        """Wakes the callers that wait for a task."""
        for event in self.waiting.pop(task, ()):
            event.set()
