"""The blocking twin: every coroutine of an object as an ordinary call, with no logic of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Walks that may never end: each step is a call of its own.
ENDLESS = frozenset({"events"})


class Blocking:
    """Wraps an object whose methods are coroutines; what they return is wrapped as well.

    The coroutines run on one event loop in a thread of its own, shared by all of the process,
    started at the first call and again after a fork.
    """

    def __init__(self, target: object) -> None:
        self._target = target

    def __repr__(self) -> str:
        return f"Blocking({self._target!r})"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if inspect.isasyncgenfunction(found):
            return functools.partial(each if name in ENDLESS else collect, found)
        if not inspect.iscoroutinefunction(found):
            return wrapped(found)

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            return wrapped(LOOP.run(found(*args, **kwargs)))

        return call


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets the thread: a forked child does not have it."""
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; an interrupted caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.started())
        try:
            return future.result()
        except BaseException:
            # Not our error to handle: only make sure that nobody goes on working for it.
            future.cancel()
            raise

    def started(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, name="rqueue", daemon=True).start()
            return self.loop


LOOP = LoopThread()
os.register_at_fork(after_in_child=LOOP.reset)


def wrapped(value: object) -> Any:
    """The value, or its blocking twin where it has coroutines of its own."""
    if isinstance(value, list):
        return [wrapped(item) for item in value]
    kinds = (vars(kind).values() for kind in type(value).__mro__)
    if any(inspect.iscoroutinefunction(found) for kind in kinds for found in kind):
        return Blocking(value)
    return value


def collect(source: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """All that an asynchronous walk yields."""

    async def gather() -> list[Any]:
        return [item async for item in source(*args, **kwargs)]

    return LOOP.run(gather())


def each(source: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """What an asynchronous walk yields, as it comes."""
    walk: AsyncGenerator[Any, None] = source(*args, **kwargs)
    end = object()

    async def step() -> Any:
        return await anext(walk, end)

    try:
        while (item := LOOP.run(step())) is not end:
            yield item
    finally:
        LOOP.run(walk.aclose())
