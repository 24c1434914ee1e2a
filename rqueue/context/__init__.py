"""What a handler is given: its task, its attempt, and the ways to speak of itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from rqueue.context.artifacts import Artifacts, Shelf
from rqueue.context.blocking import BlockingContext
from rqueue.context.steps import Aside, Steps, performed, told
from rqueue.errors import ConfigError, TaskCancelled
from rqueue.model.artifact import Artifact
from rqueue.model.note import Note, model_of
from rqueue.model.subtask import Subtask, Wait, Wish, failure_of, named, output_of
from rqueue.policy.previous import lines_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.attempt import AttemptRecord
    from rqueue.model.call import Call
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task

LOGGER = "rqueue.task"


class Suspended(BaseException):
    """Leaves a handler whose task waits for others that it spawned: the task is in no worker's
    hands any more, and runs again from the beginning of its handler when they have ended. Not an
    Exception, as a cancel is none: handlers let it pass.
    """


class Scribe(Protocol):
    """Where a context's words go, and where it reads what earlier attempts left. `model` is what
    the attempt is to use.
    """

    model: str | None

    async def note(self, said: Note) -> None: ...

    def claimed(self) -> Task: ...

    async def current(self) -> Task: ...

    async def spawn(self, wishes: Sequence[Wish], wait: Wait) -> list[Subtask]: ...

    async def step(self, name: str, result: bytes = b"") -> bytes: ...

    async def attach(self, artifact: Artifact) -> None: ...


class Context:
    """One attempt as its handler sees it. Its coroutines raise LeaseLost when another may run
    the task: stop then, and write nothing for it.

    `state` is what the worker's lifespans have put there: connections, models and the like.
    `loop` is the event loop that runs the attempt, where there is one beside the handler.
    `aside` runs plain functions of a step in a thread. `shelf` is where artifacts are kept.
    `suspended` is whether the task has left the worker to wait for others that it spawned,
    `leaving` how many calls that may come to that are under way, or have.
    """

    def __init__(self, token: str, scribe: Scribe, *, worker: str, state: dict[str, Any]) -> None:
        self.token = token
        self.worker = worker
        self.scribe = scribe
        self.state = state
        self.loop: asyncio.AbstractEventLoop | None = None
        self.aside: Aside = asyncio.to_thread
        self.shelf: Shelf | None = None
        self.stopped = False
        self._extended_sec = 0.0
        self.suspended = False
        self.leaving = 0
        self.spawned = 0

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

    @cached_property
    def references(self) -> dict[str, Any]:
        """What the task's `context_refs` mean, by reference: the outputs of tasks, and artifacts,
        whose bytes are read by their `get()`.
        """
        found = self.task.references
        return {ref: one.at(self.artifacts) if isinstance(one, Artifact) else one
                for ref, one in found.items()}  # fmt: skip

    @cached_property
    def artifacts(self) -> Artifacts:
        """Puts and reads files and other large things, see docs/guides/artifacts.md."""
        if self.shelf is None:
            raise ConfigError("ctx.artifacts", "is for attempts of a worker")
        return Artifacts(self, self.shelf)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.task.attempts + 1

    @property
    def model(self) -> str | None:
        """The model to use: of those that the task prefers, or falls back on after two failed
        attempts, the first that the worker has. None where the task names none.
        """
        return self.scribe.model

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

    async def previous_attempts(self) -> list[str]:
        """The last of them in words: what was tried, and why it failed."""
        return lines_of(await self.failures())

    async def log(self, line: str) -> None:
        """Keeps a line with the task; the last hundred are shown with it."""
        await self.scribe.note(Note(line=line))

    async def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to what the task has cost, for a model where one is named, else for `ctx.model`.
        Raises BudgetExceeded where that is more than it may, or than its budgets have left: let it
        pass, the attempt has failed and is not repeated.
        """
        named = model_of(model)
        said = Note(usd=usd, tokens_in=tokens_in, tokens_out=tokens_out, model=named)
        await self.scribe.note(said)

    async def extend(self, seconds: float) -> None:
        """Lets this attempt run so much longer than its timeout."""
        await self.scribe.note(Note(extend_sec=seconds))
        self.extended_sec += seconds

    @cached_property
    def steps(self) -> Steps:
        """The steps that this attempt has come to."""
        return Steps(self)

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """What a function gives, which is called once in the life of the task: its result is kept
        under the name, and a later attempt, on any worker, gets it without a call. A coroutine
        function is awaited, a plain one runs in a thread; the result is JSON.

        Raises what the function raises, and then nothing is kept; ConfigError for a name that this
        attempt has used, InvalidTask for a result that is no JSON, too large, or one too many,
        LeaseLost where another may run the task. A worker that dies between the call and the
        keeping has the next attempt call again: at least once, as with tasks.
        """
        with self.steps.under(name):
            kept = await self.steps.kept(name)
            if not kept:
                value = await performed(partial(function, *args, **kwargs), self.aside)
                kept = await self.steps.keep(name, value)
            return told(kept, name)

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
        """Adds a task to the DAG of this one, to run after others if it is told so, and gives its
        id; with `wait`, its output. Raises LeaseLost, SpawnRefused, InvalidGraph and the other
        SubmitErrors, and then nothing was added.

        The handler knows it by its key, by default how many it has spawned so far: when it runs
        again the same key means the same task. To wait, this handler ends here and now, and runs
        again from its beginning when the task has ended; no attempt is spent, and none of the time
        between counts. Raises SubtaskFailed where it was cancelled, or is dead and its DAG
        continues without it; otherwise a dead one is waited for until somebody resolves it.
        """
        wish = Wish(self.ordinal() if key is None else named(key), call, after)
        (found,) = await self.subtasks([wish], "success" if wait else "")
        return output_of(found) if wait else found.id

    async def gather(
        self, *calls: Call | Mapping[str, Any], return_exceptions: bool = False
    ) -> list[Any]:
        """The outputs of several spawned tasks, which run side by side: as `spawn` with `wait`.

        With `return_exceptions` any end of theirs is waited for, and a SubtaskFailed stands in the
        place of an output that there is not.
        """
        wishes = [Wish(self.ordinal(), call) for call in calls]
        if not wishes:
            return []
        found = await self.subtasks(wishes, "done" if return_exceptions else "success")
        if return_exceptions:
            return [failure_of(one) or one.output for one in found]
        return [output_of(one) for one in found]

    async def subtasks(self, wishes: Sequence[Wish], wait: Wait) -> list[Subtask]:
        """Spawns what is not there yet. Raises Suspended where it must be waited for: the code of
        this attempt has no right to go on then.
        """
        self.leaving += wait != ""
        try:
            return await self.scribe.spawn(wishes, wait)
        except Suspended:
            self.suspended = self.stopped = True
            self.leaving += 1
            raise
        finally:
            self.leaving -= wait != ""

    def ordinal(self) -> str:
        """The key of the next task that is spawned without one."""
        self.spawned += 1
        return str(self.spawned)
