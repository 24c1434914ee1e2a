"""Middleware, dependencies, lifespans and the judge of a queue, and the hooks that call them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from rqueue.errors import ConfigError
from rqueue.task.attempt.classify import is_cancelled, log_fields, runs
from rqueue.task.spec import Call

if TYPE_CHECKING:
    from rqueue.task.attempt.outcome import Completed, Failed
    from rqueue.task.state import State
    from rqueue.worker.context import Context

T = TypeVar("T")

LOG = logging.getLogger("rqueue.middleware")
STEPS = ("before_submit", "after_submit", "before_attempt", "after_attempt", "after_settle")


@dataclass(frozen=True)
class Depends:
    """A parameter default that is provided by a function.

    `provide` may take the context, may be a coroutine function, and may be a generator that cleans
    up after its single `yield`. Within an attempt each function is called once.
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
    """A parameter default that is provided by a function instead of being sent."""
    return Depends(provide)


class Middleware:
    """Hooks around each submit of this process and each attempt of its workers; override the needed
    ones. The `before_` hooks run in the order of registration, the `after_` hooks in reverse.

    An exception before a submit is raised to its caller, and nothing is submitted; one before an
    attempt fails it. An exception in an `after_` hook is logged and changes nothing.
    """

    async def before_submit(self, call: Call) -> Call | None:
        """Runs before a task is checked and sent. Returns the call to send instead, or None for
        this one.

        `before_attempt` can read the headers it adds from `ctx.task.spec.headers`.
        """

    async def after_submit(self, handles: Sequence[Any]) -> None:
        """Runs after tasks were submitted, with the Handles of one call in its order."""

    async def before_attempt(self, ctx: Context) -> None:
        """Runs before the handler."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """Runs after the handler returned or failed, before the outcome is settled. Not for an
        attempt that was stopped from outside, nor for one whose task is suspended: `before_attempt`
        runs again when its handler does.
        """

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        """Runs after the outcome was settled, with the new state: COMPLETED, RETRYING or
        DEAD_LETTERED. None if the lease was lost and nothing was written.

        Not for a task that was released.
        """


# Judges an output, given the context, the output and the task's criteria: returns True or False, or
# one of them with the reason.
Judge = Callable[["Context", Any, Any], Awaitable[Any]]
J = TypeVar("J", bound=Judge)
Lifespan = Callable[[dict[str, Any]], AbstractAsyncContextManager[None]]
# The same as a generator with one `yield`.
Resource = Callable[[dict[str, Any]], AsyncIterator[None]]


@dataclass
class Hooks:
    """The middleware, lifespans and judge of one queue."""

    middleware: list[Middleware] = field(default_factory=list)
    lifespans: list[Lifespan] = field(default_factory=list)
    judge: Judge | None = None

    def use(self, *steps: Middleware) -> None:
        """Adds middleware after the existing ones; raises ConfigError for anything else."""
        for step in steps:
            if not isinstance(step, Middleware):
                raise ConfigError("middleware", f"{step!r} is not an instance of Middleware")
            for name in STEPS:
                if not inspect.iscoroutinefunction(getattr(step, name)):
                    raise ConfigError(f"{type(step).__name__}.{name}", "is an async def")
        self.middleware.extend(steps)

    def add_lifespan(self, lifespan: Lifespan | Resource) -> None:
        """Adds a lifespan, which workers enter when they start and leave when they end."""
        if inspect.isasyncgenfunction(lifespan):
            self.lifespans.append(asynccontextmanager(lifespan))
        elif inspect.iscoroutinefunction(lifespan):
            rule = (
                "has no yield: the code before it runs at the start, the code after it at the end"
            )
            raise ConfigError(f"lifespan {lifespan.__name__}", rule)
        else:
            self.lifespans.append(cast("Lifespan", lifespan))

    def set_judge(self, judge: Judge) -> None:
        """Sets the judge of outputs; a queue has one."""
        if not inspect.iscoroutinefunction(judge):
            raise ConfigError("judge", "is an async def")
        if self.judge is not None and self.judge is not judge:
            raise ConfigError("judge", "is already set: a queue has one")
        self.judge = judge

    async def before_submit(self, call: Call) -> Call:
        """The call as the middleware returns it."""
        for step in self.middleware:
            found = await step.before_submit(call)
            if found is None:
                continue
            if not isinstance(found, Call):
                raise ConfigError(f"{type(step).__name__}.before_submit", "returns a Call or None")
            call = found
        return call

    async def after_submit(self, handles: Sequence[Any]) -> None:
        """Runs the `after_submit` hooks."""
        for step in reversed(self.middleware):
            await call_logged(step, "after_submit", handles)

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """Runs the `after_attempt` hooks."""
        for step in reversed(self.middleware):
            await call_logged(step, "after_attempt", ctx, outcome)

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        """Runs the `after_settle` hooks."""
        for step in reversed(self.middleware):
            await call_logged(step, "after_settle", ctx, outcome, state)


async def call_logged(step: Middleware, name: str, *facts: Any) -> None:
    """Calls an `after_` hook; an exception is logged without its text."""
    task = asyncio.current_task()
    try:
        await getattr(step, name)(*facts)
    except BaseException as error:
        # User code: its exceptions must not change the outcome, including a CancelledError of
        # something it awaited. Only a cancel of this task is raised, and the GeneratorExit of a
        # closed coroutine.
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        if isinstance(error, GeneratorExit) and not runs(task):
            raise
        LOG.error("%s of %s failed", name, type(step).__name__, extra=log_fields(error))
