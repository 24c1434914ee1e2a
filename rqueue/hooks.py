"""What users hang into a queue: dependencies, resources, and steps around submit and attempt."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from rqueue.errors import ConfigError
from rqueue.model.call import Call
from rqueue.policy.fault import is_cancelled, runs, told

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.model.attempt import Completed, Failed
    from rqueue.model.state import State

T = TypeVar("T")

LOG = logging.getLogger("rqueue.hooks")


@dataclass(frozen=True)
class Depends:
    """A default value that says: provide what this function gives.

    `provide` may take the context, may be a coroutine, and may be a generator that cleans up after
    its one `yield`. Within an attempt the same function is asked once.
    """

    provide: Callable[..., Any]


@overload
def depends(provide: Callable[..., AsyncIterator[T]]) -> T: ...


@overload
def depends(provide: Callable[..., Iterator[T]]) -> T: ...


@overload
def depends(provide: Callable[..., Awaitable[T]]) -> T: ...


@overload
def depends(provide: Callable[..., T]) -> T: ...


def depends(provide: Callable[..., Any]) -> Any:
    """A parameter's default that is provided by a function instead of being sent."""
    return Depends(provide)


class Middleware:
    """Steps around each submit of this process and each attempt of its workers; override what is
    needed. Before, the first middleware comes first, after, it comes last.

    What they raise before a submit reaches its caller, and nothing was written; what they raise
    before an attempt fails it. What they raise afterwards is logged and changes nothing.
    """

    async def before_submit(self, call: Call) -> Call | None:
        """Before a task is checked and sent; gives the call to send instead, or None for this one.

        The headers that it adds are read by `before_attempt` from `ctx.task.spec.headers`.
        """

    async def after_submit(self, handles: Sequence[Any]) -> None:
        """After the server has taken tasks: their Handles, all of one call, in its order."""

    async def before_attempt(self, ctx: Context) -> None:
        """Before the handler runs."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """After it returned or failed, before the outcome is written. Not for an attempt that was
        stopped from outside, nor for one that makes way for tasks that it spawned: it has not
        ended, and `before_attempt` comes again when it goes on.
        """

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        """After the server has written what the attempt ended as: COMPLETED, RETRYING or
        DEAD_LETTERED. None where the task was another's by then and nothing was written.

        Not for one that was given back unfinished.
        """


STEPS = ("before_submit", "after_submit", "before_attempt", "after_attempt", "after_settle")

# Tells whether an output is good, given the context, the output and the task's criteria: True or
# False, or one of them with the reason.
Judge = Callable[["Context", Any, Any], Awaitable[Any]]
J = TypeVar("J", bound=Judge)
Lifespan = Callable[[dict[str, Any]], AbstractAsyncContextManager[None]]
# The same as a generator with one `yield`.
Resource = Callable[[dict[str, Any]], AsyncIterator[None]]


@dataclass
class Hooks:
    """All that hangs into one queue, and the order in which it is called."""

    middleware: list[Middleware] = field(default_factory=list)
    lifespans: list[Lifespan] = field(default_factory=list)
    judge: Judge | None = None

    def use(self, *steps: Middleware) -> None:
        """Takes steps, behind those that are there; raises ConfigError where one is none."""
        for step in steps:
            if not isinstance(step, Middleware):
                raise ConfigError("middleware", f"{step!r} is no instance of Middleware")
            for name in STEPS:
                if not inspect.iscoroutinefunction(getattr(step, name)):
                    raise ConfigError(f"{type(step).__name__}.{name}", "is an async def")
        self.middleware.extend(steps)

    def open_with(self, lifespan: Lifespan | Resource) -> None:
        """Takes what workers open when they start; they close it when they end."""
        if inspect.isasyncgenfunction(lifespan):
            self.lifespans.append(asynccontextmanager(lifespan))
        elif inspect.iscoroutinefunction(lifespan):
            rule = "has no yield: what stands before it is done at the start, the rest at the end"
            raise ConfigError(f"lifespan {lifespan.__name__}", rule)
        else:
            self.lifespans.append(cast("Lifespan", lifespan))

    def judge_by(self, judge: Judge) -> None:
        """Takes the judge of outputs; a queue has one."""
        if not inspect.iscoroutinefunction(judge):
            raise ConfigError("judge", "is an async def")
        if self.judge is not None and self.judge is not judge:
            raise ConfigError("judge", "is there already: a queue has one")
        self.judge = judge

    async def before_submit(self, call: Call) -> Call:
        """The call as the steps leave it."""
        for step in self.middleware:
            found = await step.before_submit(call)
            if found is None:
                continue
            if not isinstance(found, Call):
                raise ConfigError(f"{type(step).__name__}.before_submit", "gives a Call or None")
            call = found
        return call

    async def after_submit(self, handles: Sequence[Any]) -> None:
        """Tells the steps what was taken."""
        for step in reversed(self.middleware):
            await quietly(step, "after_submit", handles)

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """Tells the steps how an attempt ended."""
        for step in reversed(self.middleware):
            await quietly(step, "after_attempt", ctx, outcome)

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        """Tells the steps what became of a task."""
        for step in reversed(self.middleware):
            await quietly(step, "after_settle", ctx, outcome, state)


async def quietly(step: Middleware, name: str, *facts: Any) -> None:
    """A step after the fact: what it raises is only logged, and without its text."""
    task = asyncio.current_task()
    try:
        await getattr(step, name)(*facts)
    except BaseException as error:
        # The user's code: what has happened stands whatever it does, a cancel of something that it
        # awaits included; only our own goes on, and the end of a coroutine that nobody runs.
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        if isinstance(error, GeneratorExit) and not runs(task):
            raise
        LOG.error("%s of %s failed", name, type(step).__name__, extra=told(error))
