"""The child processes of a worker: started when they are needed, used again, replaced when they
have died.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rqueue.context import Suspended
from rqueue.model.attempt import Failed
from rqueue.services.attempt import Encoded
from rqueue.services.children.child import Child
from rqueue.services.children.messages import Order

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.registry import Handler


class Children:
    """Runs each attempt in a process. There are never more of them than attempts at one time."""

    def __init__(self, *, grace_sec: float, max_result_bytes: int) -> None:
        self.grace_sec = grace_sec
        self.max_result_bytes = max_result_bytes
        self.all: set[Child] = set()
        self.spare: list[Child] = []

    async def run(self, handler: Handler, ctx: Context) -> Encoded | Failed:
        """How an attempt ended; raises Suspended where its task has left. Cancelled, it returns
        when its code runs no more.
        """
        child = await self.taken()
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
        """What a child must know of an attempt."""
        module, name = handler.place
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

    async def taken(self) -> Child:
        """A child that does nothing, or a new one."""
        while self.spare:
            child = self.spare.pop()
            if child.alive:
                return child
        child = await Child.start()
        self.all.add(child)
        child.life.add_done_callback(lambda _: self.all.discard(child))
        return child

    def kill(self) -> None:
        """Ends what runs at once, with its processes."""
        for child in self.all:
            if child.busy:
                child.kill()

    async def aclose(self) -> None:
        """Ends all processes; returns when they are gone."""
        children = set(self.all)
        for child in children:
            child.close()
        if not children:
            return
        lives = {child.life for child in children}
        await asyncio.wait(lives, timeout=self.grace_sec)
        for child in children:
            child.kill()
        await asyncio.wait(lives)
