"""The steps of an attempt: each runs once in the lifetime of its task, and its result is stored."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError, InvalidTask
from rqueue.task.codec import decode, encode
from rqueue.task.fields import CONTROL

if TYPE_CHECKING:
    from rqueue.worker.context import Context

RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]

MAX_NAME = 200
# Redis checks the size of a result.
NO_LIMIT = 1 << 62


class Steps:
    """The names that the steps of an attempt have used. A name is free again only if its step
    raised.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.names: set[str] = set()

    @contextmanager
    def claim_name(self, name: str) -> Iterator[None]:
        """Reserves a name for a step; raises if it is invalid or used."""
        if not isinstance(name, str) or not name or len(name) > MAX_NAME or CONTROL.search(name):
            raise InvalidTask("step", f"needs a name of one line and 1 to {MAX_NAME} characters")
        if name in self.names:
            rule = "has already run in this attempt: give each step its own name"
            raise ConfigError(f"step {name!r}", rule)
        self.names.add(name)
        try:
            yield
        except BaseException:
            # The step did not complete, so the handler may call it again.
            self.names.discard(name)
            raise

    async def kept(self, name: str) -> bytes:
        """The stored result of an earlier attempt; empty if there is none."""
        # The first lease of a task needs no call to Redis.
        return await self.ctx.backend.step(name) if self.ctx.task.epoch > 1 else b""

    async def keep(self, name: str, value: object) -> bytes:
        """Stores the result of a step."""
        data = encode(value, field=f"step {name}", max_bytes=NO_LIMIT)
        return await self.ctx.backend.step(name, data)


async def call_step(function: Callable[..., Any], run_in_thread: RunInThread) -> Any:
    """Calls a function and returns its result: a coroutine function on this event loop, a plain one
    in a thread. If a plain function returns an awaitable, it is awaited.
    """
    call = getattr(function, "func", function)
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return await function()
    found = await run_in_thread(partial(plainly, function))
    return await found if inspect.isawaitable(found) else found


def plainly(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function in its thread. A StopIteration could not pass to the event loop, and a
    GeneratorExit would close the coroutines that await it.
    """
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def decoded_step(data: bytes, name: str) -> Any:
    """The stored result of a step. It is decoded the first time too, so that all attempts get equal
    values.
    """
    return decode(data, field=f"step {name}")
