"""The coroutines of a context as blocking calls, for plain functions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.errors import ConfigError
from rqueue.worker.context.steps import decoded_step

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from rqueue.task.artifact import Artifact, Data
    from rqueue.task.attempt.outcome import AttemptRecord
    from rqueue.task.spec import Call
    from rqueue.worker.context import Context

T = TypeVar("T")


class BlockingContext:
    """Blocking versions of the context's coroutines. Each runs on the worker's event loop and
    raises what the coroutine of the same name raises. Raises ConfigError in a thread that runs an
    event loop.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    @property
    def artifacts(self) -> BlockingArtifacts:
        """Stores and reads files and other large data."""
        return BlockingArtifacts(self.ctx)

    def progress(self, value: JsonValue) -> None:
        """Reports the progress."""
        self.run(self.ctx.progress(value))

    def checkpoint(self, data: JsonValue) -> None:
        """Stores data from which the next attempt can continue."""
        self.run(self.ctx.checkpoint(data))

    def last_checkpoint(self) -> JsonValue:
        """The last checkpoint; None if there is none."""
        return self.run(self.ctx.last_checkpoint())

    def failures(self) -> Sequence[AttemptRecord]:
        """How the earlier attempts failed."""
        return self.run(self.ctx.failures())

    def previous_attempts(self) -> list[str]:
        """The same in words, for a prompt."""
        return self.run(self.ctx.previous_attempts())

    def log(self, line: str) -> None:
        """Stores a line with the task."""
        self.run(self.ctx.log(line))

    def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to the task's cost, for a model if one is named."""
        work = self.ctx.spend(usd, tokens_in=tokens_in, tokens_out=tokens_out, model=model)
        self.run(work)

    def extend(self, seconds: float) -> None:
        """Prolongs the timeout of this attempt."""
        self.run(self.ctx.extend(seconds))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function once in the lifetime of the task, in this thread, and returns its
        result.
        """
        steps = self.ctx.steps
        with steps.claim_name(name):
            kept = self.run(steps.kept(name))
            if not kept:
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    value = self.run(value)
                kept = self.run(steps.keep(name, value))
            return decoded_step(kept, name)

    def spawn(
        self,
        call: Call | Mapping[str, Any],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        wait: bool = False,
    ) -> Any:
        """Adds a task to the DAG of this one; returns its id, or with `wait` its output."""
        return self.run(self.ctx.spawn(call, after=after, key=key, wait=wait))

    def gather(self, *calls: Call | Mapping[str, Any], return_exceptions: bool = False) -> Any:
        """The outputs of several spawned tasks."""
        return self.run(self.ctx.gather(*calls, return_exceptions=return_exceptions))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine from a thread without an event loop."""
        loop = self.ctx.loop
        if has_loop() or (loop is not None and loop.is_closed()):
            work.close()
            rule = "is for plain functions while their worker runs; coroutines await ctx itself"
            raise ConfigError("ctx.sync", rule)
        # In a subprocess a short-lived loop is enough, since no connection is opened there.
        if loop is None:
            return asyncio.run(work)
        return asyncio.run_coroutine_threadsafe(work, loop).result()


class BlockingArtifacts:
    """The artifacts of an attempt as blocking calls."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Stores data and records it with the task."""
        return self.ctx.sync.run(self.ctx.artifacts.put(data, name=name, media_type=media_type))

    def info(self, artifact: str | Artifact) -> Artifact:
        """The metadata of an artifact."""
        return self.ctx.sync.run(self.ctx.artifacts.info(artifact))

    def get(self, artifact: str | Artifact) -> bytes:
        """All of its bytes."""
        return self.ctx.sync.run(self.ctx.artifacts.get(artifact))

    def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes it to a file."""
        return self.ctx.sync.run(self.ctx.artifacts.save(artifact, path))


def has_loop() -> bool:
    """Whether this thread runs an event loop, which a blocking call would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
