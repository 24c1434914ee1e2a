"""The coroutines of a context as ordinary calls, for plain functions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.context.artifacts import BlockingArtifacts
from rqueue.context.steps import told
from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.context import Context
    from rqueue.model.attempt import AttemptRecord
    from rqueue.model.call import Call

T = TypeVar("T")


class BlockingContext:
    """What a plain function says of its attempt: each call returns when it is written, or raises
    what the coroutine of its name raises. It runs on the worker's own event loop, over the
    connections that are there, and raises ConfigError in a thread that runs an event loop.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    @property
    def artifacts(self) -> BlockingArtifacts:
        """Puts and reads files and other large things."""
        return BlockingArtifacts(self.ctx)

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

    def previous_attempts(self) -> list[str]:
        """The last of them in words: what was tried, and why it failed."""
        return self.run(self.ctx.previous_attempts())

    def log(self, line: str) -> None:
        """Keeps a line with the task."""
        self.run(self.ctx.log(line))

    def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to what the task has cost, for a model where one is named."""
        work = self.ctx.spend(usd, tokens_in=tokens_in, tokens_out=tokens_out, model=model)
        self.run(work)

    def extend(self, seconds: float) -> None:
        """Lets this attempt run so much longer than its timeout."""
        self.run(self.ctx.extend(seconds))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What a function gives, which is called once in the life of the task, in this thread."""
        steps = self.ctx.steps
        with steps.under(name):
            kept = self.run(steps.kept(name))
            if not kept:
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    value = self.run(value)
                kept = self.run(steps.keep(name, value))
            return told(kept, name)

    def spawn(
        self,
        call: Call | Mapping[str, Any],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        wait: bool = False,
    ) -> Any:
        """Adds a task to the DAG of this one; its id, or with `wait` its output."""
        return self.run(self.ctx.spawn(call, after=after, key=key, wait=wait))

    def gather(self, *calls: Call | Mapping[str, Any], return_exceptions: bool = False) -> Any:
        """The outputs of several spawned tasks."""
        return self.run(self.ctx.gather(*calls, return_exceptions=return_exceptions))

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
