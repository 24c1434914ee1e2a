"""What a handler is given: its task, its attempt, and the ways to speak of itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rqueue.errors import ConfigError, TaskCancelled
from rqueue.model.note import Note

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.attempt import AttemptRecord
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task

LOGGER = "rqueue.task"
T = TypeVar("T")


class Scribe(Protocol):
    """Where a context's words go, and where it reads what earlier attempts left."""

    async def note(self, said: Note) -> None: ...

    def claimed(self) -> Task: ...

    async def current(self) -> Task: ...


class Context:
    """One attempt as its handler sees it. Its coroutines raise LeaseLost when another may run
    the task: stop then, and write nothing for it.

    `state` is what the worker's lifespans have put there: connections, models and the like.
    `loop` is the event loop that runs the attempt, where there is one beside the handler.
    """

    def __init__(self, token: str, scribe: Scribe, *, worker: str, state: dict[str, Any]) -> None:
        self.token = token
        self.worker = worker
        self.scribe = scribe
        self.state = state
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopped = False
        self._extended_sec = 0.0

    @cached_property
    def task(self) -> Task:
        """The task as it was claimed."""
        return self.scribe.claimed()

    @property
    def extended_sec(self) -> float:
        """How much longer than its timeout this attempt may run; `extend` adds to it."""
        return self._extended_sec

    @extended_sec.setter
    def extended_sec(self, seconds: float) -> None:
        if not isinstance(seconds, int | float) or not isfinite(seconds):
            raise ConfigError("ctx.extended_sec", "is a number of seconds: use ctx.extend")
        self._extended_sec = seconds

    @property
    def id(self) -> TaskId:
        """The task's id."""
        return self.task.id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.task.attempts + 1

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines bear the task's id and attempt."""
        facts = {"task": str(self.id), "attempt": self.attempt, "worker": self.worker}
        return logging.LoggerAdapter(logging.getLogger(f"{LOGGER}.{self.task.type}"), facts)

    @property
    def cancelled(self) -> bool:
        """Whether the work is to stop: cancelled, timed out, or its lease lost. Plain functions
        look here from time to time; coroutines are cancelled by themselves.
        """
        return self.stopped

    @cached_property
    def sync(self) -> BlockingContext:
        """The same coroutines as ordinary calls, for plain functions."""
        return BlockingContext(self)

    def check(self) -> None:
        """Raises TaskCancelled when the work is to stop."""
        if self.stopped:
            raise TaskCancelled(self.id, reason="the attempt was told to stop")

    async def progress(self, value: JsonValue) -> None:
        """Says how far the work is; whoever looks at the task sees it."""
        await self.scribe.note(Note(progress=value))

    async def checkpoint(self, data: JsonValue) -> None:
        """Keeps what the next attempt needs to go on from here."""
        await self.scribe.note(Note(checkpoint=data))

    async def last_checkpoint(self) -> JsonValue:
        """What was kept last, by this attempt or an earlier one; None where nothing was."""
        return (await self.scribe.current()).checkpoint

    async def failures(self) -> Sequence[AttemptRecord]:
        """How the attempts before this one ended."""
        return (await self.scribe.current()).failure_history

    async def log(self, line: str) -> None:
        """Keeps a line with the task; the last hundred are shown with it."""
        await self.scribe.note(Note(line=line))

    async def spend(self, usd: float = 0.0, *, tokens_in: int = 0, tokens_out: int = 0) -> None:
        """Adds to what the task has cost."""
        await self.scribe.note(Note(usd=usd, tokens_in=tokens_in, tokens_out=tokens_out))

    async def extend(self, seconds: float) -> None:
        """Lets this attempt run so much longer than its timeout."""
        await self.scribe.note(Note(extend_sec=seconds))
        self.extended_sec += seconds


class BlockingContext:
    """What a plain function says of its attempt: each call returns when it is written, or raises
    what the coroutine of its name raises. It runs on the worker's own event loop, over the
    connections that are there, and raises ConfigError in a thread that runs an event loop.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def progress(self, value: JsonValue) -> None:
        """Says how far the work is."""
        self.run(self.ctx.progress(value))

    def checkpoint(self, data: JsonValue) -> None:
        """Keeps what the next attempt needs to go on from here."""
        self.run(self.ctx.checkpoint(data))

    def last_checkpoint(self) -> JsonValue:
        """What was kept last; None where nothing was."""
        return self.run(self.ctx.last_checkpoint())

    def failures(self) -> Sequence[AttemptRecord]:
        """How the attempts before this one ended."""
        return self.run(self.ctx.failures())

    def log(self, line: str) -> None:
        """Keeps a line with the task."""
        self.run(self.ctx.log(line))

    def spend(self, usd: float = 0.0, *, tokens_in: int = 0, tokens_out: int = 0) -> None:
        """Adds to what the task has cost."""
        self.run(self.ctx.spend(usd, tokens_in=tokens_in, tokens_out=tokens_out))

    def extend(self, seconds: float) -> None:
        """Lets this attempt run so much longer than its timeout."""
        self.run(self.ctx.extend(seconds))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives, from a thread without an event loop."""
        loop = self.ctx.loop
        if has_loop() or (loop is not None and loop.is_closed()):
            work.close()
            rule = "is for plain functions while their worker runs; coroutines await ctx itself"
            raise ConfigError("ctx.sync", rule)
        # In a process of its own the loop is short, since nothing is opened there.
        if loop is None:
            return asyncio.run(work)
        return asyncio.run_coroutine_threadsafe(work, loop).result()


def has_loop() -> bool:
    """Whether this thread runs an event loop, which a call that waits would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
