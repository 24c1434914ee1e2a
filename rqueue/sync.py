"""Blocking wrappers: every coroutine method of an object becomes an ordinary call."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Methods whose iterators may never end: each step is a separate call.
ENDLESS = frozenset({"events"})


class Blocking:
    """Wraps an object whose methods are coroutines; their results are wrapped too.

    The coroutines run on one event loop in a thread of its own, which the whole process shares. The
    first call starts the thread; the first call after a fork starts a new one.
    """

    def __init__(self, target: object) -> None:
        self._target = target

    def __repr__(self) -> str:
        return f"Blocking({self._target!r})"

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]

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
    """An event loop in a daemon thread; the first call starts it."""

    def __init__(self, name: str = "rqueue") -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forgets the thread, which does not exist in a forked process."""
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and returns its result. If the caller is interrupted, cancels the
        coroutine.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.started())
        try:
            return future.result()
        except BaseException:
            # The caller handles the exception; the coroutine must not continue.
            future.cancel()
            raise

    def started(self) -> asyncio.AbstractEventLoop:
        """Returns the running event loop; starts it at the first call."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                run = self.loop.run_forever
                threading.Thread(target=run, name=self.name, daemon=True).start()
            return self.loop


LOOP = LoopThread()
os.register_at_fork(after_in_child=LOOP.reset)


def wrapped(value: object) -> Any:
    """Returns the value, wrapped if its class has coroutine methods."""
    if isinstance(value, list):
        return [wrapped(item) for item in value]
    kinds = (vars(kind).values() for kind in type(value).__mro__)
    if any(inspect.iscoroutinefunction(found) for kind in kinds for found in kind):
        return Blocking(value)
    return value


def collect(source: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Returns all items of an asynchronous iterator."""

    async def gather() -> list[Any]:
        return [item async for item in source(*args, **kwargs)]

    return LOOP.run(gather())


def each(source: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Yields the items of an asynchronous iterator."""
    walk: AsyncGenerator[Any, None] = source(*args, **kwargs)
    end = object()

    async def step() -> Any:
        return await anext(walk, end)

    try:
        while (item := LOOP.run(step())) is not end:
            yield item
    finally:
        LOOP.run(walk.aclose())
