"""The context that a handler gets: its task, its attempt, and the calls to report about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from rqueue.errors import ConfigError, TaskCancelled
from rqueue.task.artifact import Artifact
from rqueue.task.attempt.outcome import lines_of
from rqueue.task.task import Note, model_of
from rqueue.worker.context.artifacts import Artifacts, Shelf
from rqueue.worker.context.blocking import BlockingContext
from rqueue.worker.context.spawn import SpawnRequest, Subtask, Wait, failure_of, named, output_of
from rqueue.worker.context.steps import RunInThread, Steps, call_step, decoded_step

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.attempt.outcome import AttemptRecord
    from rqueue.task.ids import TaskId
    from rqueue.task.spec import Call
    from rqueue.task.task import Task

LOGGER = "rqueue.task"


class Suspended(BaseException):
    """Raised in a handler whose task is suspended until the tasks it spawned have ended. The lease
    is over; the handler runs again from its beginning. Not an Exception, like CancelledError, so
    that handlers do not catch it.
    """


class ContextBackend(Protocol):
    """Where a context stores what its handler reports, and reads what earlier attempts stored.
    `model` is the model of the attempt.
    """

    model: str | None

    async def note(self, report: Note) -> None: ...

    def claimed(self) -> Task: ...

    async def current(self) -> Task: ...

    async def spawn(self, requests: Sequence[SpawnRequest], wait: Wait) -> list[Subtask]: ...

    async def step(self, name: str, result: bytes = b"") -> bytes: ...

    async def attach(self, artifact: Artifact) -> None: ...


class Context:
    """One attempt from the view of its handler. Its coroutines raise LeaseLost when another worker
    may run the task: the handler should stop then.

    `state` is what the worker's lifespans have put there, such as connections and models. `loop` is
    the worker's event loop; None in a subprocess. `run_in_thread` runs the plain functions of
    steps. `shelf` stores artifacts. `suspended` is whether the task is suspended, `suspending` how
    many calls have suspended it or may still do so.
    """

    def __init__(
        self, token: str, backend: ContextBackend, *, worker: str, state: dict[str, Any]
    ) -> None:
        self.token = token
        self.worker = worker
        self.backend = backend
        self.state = state
        self.loop: asyncio.AbstractEventLoop | None = None
        self.run_in_thread: RunInThread = asyncio.to_thread
        self.shelf: Shelf | None = None
        self.stopped = False
        self._extended_sec = 0.0
        self.suspended = False
        self.suspending = 0
        self.spawned = 0

    @cached_property
    def task(self) -> Task:
        """The task as it was claimed."""
        return self.backend.claimed()

    @property
    def extended_sec(self) -> float:
        """By how much `extend` has prolonged the timeout of this attempt."""
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

    @cached_property
    def references(self) -> dict[str, Any]:
        """The values of the task's `context_refs` by reference: outputs of tasks, and artifacts,
        whose bytes `get()` reads.
        """
        found = self.task.references
        return {ref: one.at(self.artifacts) if isinstance(one, Artifact) else one
                for ref, one in found.items()}  # fmt: skip

    @cached_property
    def artifacts(self) -> Artifacts:
        """Stores and reads files and other large data, see docs/guides/artifacts.md."""
        if self.shelf is None:
            raise ConfigError("ctx.artifacts", "is for attempts of a worker")
        return Artifacts(self, self.shelf)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.task.attempts + 1

    @property
    def model(self) -> str | None:
        """The model to use: the first of the task's preferences, or of its fallbacks after two
        failed attempts, that the worker offers. None if the task names none.
        """
        return self.backend.model

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines contain the task's id and attempt."""
        facts = {"task": str(self.id), "attempt": self.attempt, "worker": self.worker}
        return logging.LoggerAdapter(logging.getLogger(f"{LOGGER}.{self.task.type}"), facts)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop: cancelled, timed out, or its lease lost. Plain functions
        check this from time to time; coroutines are cancelled.
        """
        return self.stopped

    @cached_property
    def sync(self) -> BlockingContext:
        """The same coroutines as blocking calls, for plain functions."""
        return BlockingContext(self)

    def check(self) -> None:
        """Raises TaskCancelled if the attempt should stop."""
        if self.stopped:
            raise TaskCancelled(self.id, reason="the attempt was stopped")

    async def progress(self, value: JsonValue) -> None:
        """Reports the progress, which is shown with the task."""
        await self.backend.note(Note(progress=value))

    async def checkpoint(self, data: JsonValue) -> None:
        """Stores data from which the next attempt can continue."""
        await self.backend.note(Note(checkpoint=data))

    async def last_checkpoint(self) -> JsonValue:
        """The last checkpoint of this or an earlier attempt; None if there is none."""
        return (await self.backend.current()).checkpoint

    async def failures(self) -> Sequence[AttemptRecord]:
        """How the earlier attempts failed."""
        return (await self.backend.current()).failure_history

    async def previous_attempts(self) -> list[str]:
        """The same in words, for a prompt: what was tried, and why it failed."""
        return lines_of(await self.failures())

    async def log(self, line: str) -> None:
        """Stores a line with the task, which keeps the last hundred."""
        await self.backend.note(Note(line=line))

    async def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to the task's cost, for the named model, else for `ctx.model`. Raises BudgetExceeded
        if that is more than its limit or than its budgets have left. Let the exception pass: the
        attempt has failed and is not retried.
        """
        named = model_of(model)
        report = Note(usd=usd, tokens_in=tokens_in, tokens_out=tokens_out, model=named)
        await self.backend.note(report)

    async def extend(self, seconds: float) -> None:
        """Prolongs the timeout of this attempt."""
        await self.backend.note(Note(extend_sec=seconds))
        self.extended_sec += seconds

    @cached_property
    def steps(self) -> Steps:
        """The steps of this attempt."""
        return Steps(self)

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls a function once in the lifetime of the task and returns its result. The result is
        stored under `name`; later attempts, on any worker, get it without a call. A coroutine
        function is awaited, a plain one runs in a thread; the result must be JSON.

        Raises what the function raises, and then stores nothing. Raises ConfigError for a name that
        this attempt has used, InvalidTask for a result that is no JSON, too large, or one too many,
        LeaseLost if another worker may run the task. If a worker dies between the call and the
        store, the next attempt calls the function again: at least once, like tasks.
        """
        with self.steps.claim_name(name):
            kept = await self.steps.kept(name)
            if not kept:
                value = await call_step(partial(function, *args, **kwargs), self.run_in_thread)
                kept = await self.steps.keep(name, value)
            return decoded_step(kept, name)

    @overload
    async def spawn(
        self,
        call: Call | Mapping[str, Any],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        wait: Literal[False] = False,
    ) -> TaskId: ...

    @overload
    async def spawn(
        self,
        call: Call | Mapping[str, Any],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        wait: bool,
    ) -> Any: ...

    async def spawn(
        self,
        call: Call | Mapping[str, Any],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        wait: bool = False,
    ) -> Any:
        """Adds a task to the DAG of this one, after the tasks in `after`, and returns its id; with
        `wait`, its output. Raises LeaseLost, SpawnRefused, InvalidGraph and the other SubmitErrors;
        nothing is added then.

        The task is identified by `key`, by default the number of tasks spawned so far: when the
        handler runs again, the same key means the same task. With `wait` the handler ends here and
        runs again from its beginning when the task has ended; no attempt is spent, and the time
        between does not count. Raises SubtaskFailed if the task was cancelled, or is dead and its
        DAG continues without it; otherwise a dead task is waited for until an operator resolves it.
        """
        request = SpawnRequest(self.ordinal() if key is None else named(key), call, after)
        (found,) = await self.subtasks([request], "success" if wait else "")
        return output_of(found) if wait else found.id

    async def gather(
        self, *calls: Call | Mapping[str, Any], return_exceptions: bool = False
    ) -> list[Any]:
        """The outputs of several spawned tasks that run concurrently; like `spawn` with `wait`.

        With `return_exceptions`, waits for any end of each task and returns SubtaskFailed in place
        of a missing output.
        """
        requests = [SpawnRequest(self.ordinal(), call) for call in calls]
        if not requests:
            return []
        found = await self.subtasks(requests, "done" if return_exceptions else "success")
        if return_exceptions:
            return [failure_of(one) or one.output for one in found]
        return [output_of(one) for one in found]

    async def subtasks(self, requests: Sequence[SpawnRequest], wait: Wait) -> list[Subtask]:
        """Spawns the tasks that do not exist yet. Raises Suspended if the task has to wait for
        them; its code must not continue then.
        """
        self.suspending += wait != ""
        try:
            return await self.backend.spawn(requests, wait)
        except Suspended:
            self.suspended = self.stopped = True
            self.suspending += 1
            raise
        finally:
            self.suspending -= wait != ""

    def ordinal(self) -> str:
        """The default key of the next spawned task."""
        self.spawned += 1
        return str(self.spawned)
