"""The pool of child processes: started on demand, reused, and replaced when they die."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.task.attempt.outcome import Failed
from rqueue.worker.attempt import Encoded
from rqueue.worker.children.child import Child
from rqueue.worker.children.messages import Order
from rqueue.worker.context import Suspended

if TYPE_CHECKING:
    from rqueue.worker.context import Context
    from rqueue.worker.handler import Handler


class Children:
    """Runs each attempt in a child process; there are at most as many as attempts at one time."""

    def __init__(self, *, grace_sec: float, max_result_bytes: int) -> None:
        self.grace_sec = grace_sec
        self.max_result_bytes = max_result_bytes
        self.all: set[Child] = set()
        self.spare: list[Child] = []

    async def run(self, handler: Handler, ctx: Context) -> Encoded | Failed:
        """Runs an attempt and returns its outcome; raises Suspended if its task is suspended. If
        cancelled, returns when the attempt's code has ended.
        """
        child = await self.acquire()
        try:
            outcome = await child.run(self.order(handler, ctx), ctx)
        except asyncio.CancelledError:
            await child.stop(self.grace_sec)
            raise
        finally:
            if child.alive and not child.busy:
                self.spare.append(child)
        if outcome is None:
            raise Suspended
        return outcome if isinstance(outcome, Failed) else Encoded(outcome)

    def order(self, handler: Handler, ctx: Context) -> Order:
        """The order for a child to run an attempt."""
        module, name = handler.import_path
        return Order(
            type=handler.type,
            module=module,
            name=name,
            task=ctx.task,
            token=ctx.token,
            worker=ctx.worker,
            max_result_bytes=self.max_result_bytes,
            model=ctx.model,
            shelf=ctx.shelf,
        )

    async def acquire(self) -> Child:
        """An idle child, or a new one."""
        while self.spare:
            child = self.spare.pop()
            if child.alive:
                return child
        child = await Child.start()
        self.all.add(child)
        child.lifetime.add_done_callback(lambda _: self.all.discard(child))
        return child

    def kill(self) -> None:
        """Kills the children that run an attempt."""
        for child in self.all:
            if child.busy:
                child.kill()

    async def aclose(self) -> None:
        """Ends all children; returns when they are gone."""
        children = set(self.all)
        for child in children:
            child.close()
        if not children:
            return
        lifetimes = {child.lifetime for child in children}
        await asyncio.wait(lifetimes, timeout=self.grace_sec)
        for child in children:
            child.kill()
        await asyncio.wait(lifetimes)
