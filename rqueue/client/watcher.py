"""Waits for the ends of tasks and DAGs: one blocking connection for all who wait in one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.model.dag import ENDED
from rqueue.model.state import FINAL
from rqueue.store.claims import new_box
from rqueue.store.mail import read_mail
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# The server forgets who asked after a while; asking again this often keeps well inside it.
ASK_AGAIN_SEC = 5.0
KEEP_MS = 60_000
PAUSE_SEC = 0.1
# A read for less is not worth its way, and one for nothing would have no end.
SHORTEST_SEC = 0.01
GONE = "GONE"


class Watcher:
    """Tells who waits that a task has ended. Runs only while someone waits."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.box = new_box()
        self.waiting: dict[str, set[asyncio.Event]] = {}
        self.scopes: set[asyncio.Timeout] = set()
        self.listener: asyncio.Task[None] | None = None
        self.again_at = 0.0

    async def ended(self, task: str) -> None:
        """Returns when the task has ended, or is not there (any more). Raises StoreUnavailable
        when the watcher is closed before.
        """
        scope = asyncio.timeout(None)
        self.scopes.add(scope)
        try:
            async with scope:
                await self.told(task)
        except TimeoutError:
            raise StoreUnavailable("the queue was closed while a result was waited for") from None
        finally:
            self.scopes.discard(scope)

    async def told(self, task: str) -> None:
        """Asks for mail about a task, if nobody has, and waits for it."""
        events = self.waiting.setdefault(task, set())
        event = asyncio.Event()
        events.add(event)
        try:
            if len(events) == 1:
                await self.ask([task])
            if self.listener is None or self.listener.done():
                self.listener = asyncio.get_running_loop().create_task(self.listen())
            await event.wait()
        finally:
            events.discard(event)
            if not events and self.waiting.get(task) is events:
                del self.waiting[task]

    async def aclose(self) -> None:
        """Ends the listening; who still waits is told so at once."""
        now = asyncio.get_running_loop().time()
        while self.scopes:
            self.scopes.pop().reschedule(now)
        if self.listener is not None:
            self.listener.cancel()
            await asyncio.gather(self.listener, return_exceptions=True)

    async def ask(self, tasks: list[str]) -> None:
        """Asks for mail about these tasks; those that have ended need none."""
        args: dict[str, Argument] = {"box": self.box, "keep_ms": KEEP_MS}
        for start in range(0, len(tasks), CHUNK):
            page = tasks[start : start + CHUNK]
            reply = await self.shard.run("task/watch", args, [(task,) for task in page])
            for task, state in zip(page, map(text, ok("task/watch", "", reply)), strict=True):
                if state == GONE or state in FINAL or state in ENDED:
                    self.tell(task)

    async def listen(self) -> None:
        """Reads the box until nobody waits; asks again from time to time, however much mail comes,
        since the server forgets who asked and mail can be lost.
        """
        loop = asyncio.get_running_loop()
        self.again_at = loop.time() + ASK_AGAIN_SEC
        while self.waiting:
            try:
                left = self.again_at - loop.time()
                if left < SHORTEST_SEC:
                    self.again_at = loop.time() + ASK_AGAIN_SEC
                    await self.ask(list(self.waiting))
                    continue
                mail = await read_mail(self.shard, self.box, left)
                if mail is not None and mail.words[0] == "ended":
                    self.tell(mail.words[1])
            except RQueueError:
                # A new box: the old read may still stand at the server and take the next line.
                self.box = new_box()
                await asyncio.sleep(PAUSE_SEC)
                await self.ask_when_back()

    async def ask_when_back(self) -> None:
        """Asks for everything under the new box; an outage is waited out by the next round."""
        try:
            await self.ask(list(self.waiting))
        except RQueueError:
            return

    def tell(self, task: str) -> None:
        """Wakes who waits for a task."""
        for event in self.waiting.pop(task, ()):
            event.set()
