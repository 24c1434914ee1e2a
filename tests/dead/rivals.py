"""Two reviewers who look at the same dead tasks before either of them decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rqueue import Queue

DECIDING = ("task/revive", "task/discard", "task/escalate")
Send = Callable[[], Awaitable[Any]]


class Rivals:
    """Holds the decisions of two queues until both are on their way, and lets them through one
    behind the other. Where the reply to the first is `lost`, it is sent again after the second.
    """

    def __init__(self, first: Queue, second: Queue, *, lost: bool = False) -> None:
        self.lost = lost
        self.begun, self.sent, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        hold(first, self.ahead)
        hold(second, self.behind)

    async def ahead(self, send: Send) -> Any:
        """The first one's call."""
        if self.sent.is_set():
            return await send()
        await self.begun.wait()
        reply = await send()
        self.sent.set()
        if self.lost:
            await self.answered.wait()
            again = await send()
            assert again == reply
        return reply

    async def behind(self, send: Send) -> Any:
        """The second one's call."""
        self.begun.set()
        await self.sent.wait()
        reply = await send()
        self.answered.set()
        return reply


async def both(*calls: Awaitable[Any]) -> list[Any]:
    """What each call returns, or raises."""
    return await asyncio.gather(*calls, return_exceptions=True)


def hold(queue: Queue, turn: Callable[[Send], Awaitable[Any]]) -> None:
    """Asks `turn` when a decision of this queue may be sent; one that is sent again is sent with
    the same words.
    """
    shard: Any = queue._internals.shard
    run, run_all = shard.run, shard.run_all

    async def held(name: str, *given: Any, **more: Any) -> Any:
        async def send() -> Any:
            return await run(name, *given, **more)

        return await (turn(send) if name in DECIDING else send())

    async def held_all(name: str, calls: Any) -> Any:
        return await turn(lambda: run_all(name, calls))

    shard.run, shard.run_all = held, held_all
