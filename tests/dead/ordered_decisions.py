"""Two reviewers who have read the same dead tasks before either of them decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rqueue import Queue

DECIDING = ("task/revive", "task/discard", "task/escalate")
Send = Callable[[], Awaitable[Any]]


class OrderedDecisions:
    """Delays the decisions of two queues until both are being sent, and sends them one after the
    other. If the reply to the first is `lost`, it is sent again after the second.
    """

    def __init__(self, first: Queue, second: Queue, *, lost: bool = False) -> None:
        self.lost = lost
        self.begun, self.sent, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        delay(first, self.send_first)
        delay(second, self.send_second)

    async def send_first(self, send: Send) -> Any:
        """Sends the first decision."""
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

    async def send_second(self, send: Send) -> Any:
        """Sends the second decision."""
        self.begun.set()
        await self.sent.wait()
        reply = await send()
        self.answered.set()
        return reply


async def both(*calls: Awaitable[Any]) -> list[Any]:
    """Returns what each call returns or raises."""
    return await asyncio.gather(*calls, return_exceptions=True)


def delay(queue: Queue, turn: Callable[[Send], Awaitable[Any]]) -> None:
    """Passes the decisions of this queue to `turn`, which sends them, perhaps twice with the same
    arguments.
    """
    shard: Any = queue._internals.shard
    run, run_all = shard.run, shard.run_all

    async def delayed(name: str, *given: Any, **more: Any) -> Any:
        async def send() -> Any:
            return await run(name, *given, **more)

        return await (turn(send) if name in DECIDING else send())

    async def delayed_all(name: str, calls: Any) -> Any:
        return await turn(lambda: run_all(name, calls))

    shard.run, shard.run_all = delayed, delayed_all
