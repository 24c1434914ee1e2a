"""The steps of an attempt: each is done once in the life of its task, and its result is kept."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError, InvalidTask
from rqueue.model.checked import CONTROL
from rqueue.model.codec import decode, encode

if TYPE_CHECKING:
    from rqueue.context import Context

Aside = Callable[[Callable[[], Any]], Awaitable[Any]]

MAX_NAME = 200
# The store knows how large a result may be.
NO_LIMIT = 1 << 62


class Steps:
    """What an attempt has asked of its steps so far. A name stands for one step: it is free again
    only where the step raised.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.names: set[str] = set()

    @contextmanager
    def under(self, name: str) -> Iterator[None]:
        """Holds a name for a step; raises where it is none, or another's."""
        if not isinstance(name, str) or not name or len(name) > MAX_NAME or CONTROL.search(name):
            raise InvalidTask("step", f"is named by a line of 1 to {MAX_NAME} characters")
        if name in self.names:
            rule = "is done already in this attempt: give each step a name of its own"
            raise ConfigError(f"step {name!r}", rule)
        self.names.add(name)
        try:
            yield
        except BaseException:
            # It is not done: the handler may come to it again.
            self.names.discard(name)
            raise

    async def kept(self, name: str) -> bytes:
        """What an earlier attempt has kept; nothing where it has not."""
        # The first who has the task need not ask.
        return await self.ctx.scribe.step(name) if self.ctx.task.epoch > 1 else b""

    async def keep(self, name: str, value: object) -> bytes:
        """Keeps what the step gave."""
        data = encode(value, field=f"step {name}", max_bytes=NO_LIMIT)
        return await self.ctx.scribe.step(name, data)


async def performed(function: Callable[..., Any], aside: Aside) -> Any:
    """What a function gives: a coroutine function's on this loop, a plain one's from a thread. One
    that gives a coroutine means what that gives.
    """
    call = getattr(function, "func", function)
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return await function()
    found = await aside(partial(plainly, function))
    return await found if inspect.isawaitable(found) else found


def plainly(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function in its thread. A StopIteration could not pass to the event loop, and a
    GeneratorExit would close the coroutines that await it.
    """
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def told(data: bytes, name: str) -> Any:
    """What a step gave, as it is kept: the first time, too, so that no attempt sees another."""
    return decode(data, field=f"step {name}")
