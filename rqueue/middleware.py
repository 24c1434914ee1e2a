"""The middleware, lifespans and judge of a queue, dependencies of handlers, and their calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from rqueue.errors import ConfigError
from rqueue.task.attempt.classify import is_cancelled, is_current, log_fields
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
    """A default value of a parameter that a function provides.

    `provide` may take the context, may be a coroutine function, and may be a generator that cleans
    up after its single `yield`. It is called once per attempt, however many parameters use it.
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
    """Marks a parameter of a handler as provided by a function instead of the payload."""
    return Depends(provide)


class Middleware:
    """Hooks around each submit by this process and each attempt of its workers. Override those that
    you need; `before_` hooks run in the order of registration, `after_` hooks in reverse.

    An exception in `before_submit` is raised to the caller, and nothing is submitted; one in
    `before_attempt` fails the attempt. An exception in an `after_` hook is logged and has no other
    effect.
    """

    async def before_submit(self, call: Call) -> Call | None:
        """Runs before a task is checked and sent. Returns the call to send instead, or None to send
        the given one. `before_attempt` can read headers that it adds as `ctx.task.spec.headers`.
        """

    async def after_submit(self, handles: Sequence[Any]) -> None:
        """Runs after tasks were submitted; `handles` are those of one call, in its order."""

    async def before_attempt(self, ctx: Context) -> None:
        """Runs before the handler."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """Runs after the handler returned or failed, before the outcome is settled.

        It does not run for an attempt that was stopped from outside or whose task was suspended.
        When the handler of a suspended task runs again, `before_attempt` runs again too.
        """

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        """Runs after the outcome was settled. `state` is the new state: COMPLETED, RETRYING or
        DEAD_LETTERED; None if the lease was lost and nothing was written.

        It does not run for a task that was released.
        """


# A judge takes the context, the output and the task's criteria. It returns True or False, or a pair
# of one of them and the reason.
Judge = Callable[["Context", Any, Any], Awaitable[Any]]
J = TypeVar("J", bound=Judge)
Lifespan = Callable[[dict[str, Any]], AbstractAsyncContextManager[None]]
# A lifespan as an async generator function with one `yield`.
Resource = Callable[[dict[str, Any]], AsyncIterator[None]]


@dataclass
class Hooks:
    """The middleware, lifespans and judge of one queue."""

    middleware: list[Middleware] = field(default_factory=list)
    lifespans: list[Lifespan] = field(default_factory=list)
    judge: Judge | None = None

    def use(self, *steps: Middleware) -> None:
        """Adds middleware after the existing ones. Raises ConfigError for any other object."""
        for step in steps:
            if not isinstance(step, Middleware):
                raise ConfigError("middleware", f"{step!r} is not an instance of Middleware")
            for name in STEPS:
                if not inspect.iscoroutinefunction(getattr(step, name)):
                    raise ConfigError(f"{type(step).__name__}.{name}", "must be an async def")
        self.middleware.extend(steps)

    def add_lifespan(self, lifespan: Lifespan | Resource) -> None:
        """Adds a lifespan, which each worker enters when it starts and leaves when it ends. Raises
        ConfigError for a coroutine function.
        """
        if inspect.isasyncgenfunction(lifespan):
            self.lifespans.append(asynccontextmanager(lifespan))
        elif inspect.iscoroutinefunction(lifespan):
            rule = "must have a yield: code before it runs at the start, code after it at the end"
            raise ConfigError(f"lifespan {lifespan.__name__}", rule)
        else:
            self.lifespans.append(cast("Lifespan", lifespan))

    def set_judge(self, judge: Judge) -> None:
        """Sets the judge of outputs. Raises ConfigError for a second judge."""
        if not inspect.iscoroutinefunction(judge):
            raise ConfigError("judge", "must be an async def")
        if self.judge is not None and self.judge is not judge:
            raise ConfigError("judge", "is already set; a queue has one judge")
        self.judge = judge

    async def before_submit(self, call: Call) -> Call:
        """Runs the `before_submit` hooks and returns the call to send."""
        for step in self.middleware:
            found = await step.before_submit(call)
            if found is None:
                continue
            if not isinstance(found, Call):
                raise ConfigError(
                    f"{type(step).__name__}.before_submit", "must return a Call or None"
                )
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
    """Calls an `after_` hook. Logs its exception without the text."""
    task = asyncio.current_task()
    try:
        await getattr(step, name)(*facts)
    except BaseException as error:
        # An exception of user code must not change the outcome, even a CancelledError of something
        # that it awaited. Raised again are only a cancel of this task, and the GeneratorExit of a
        # closed coroutine.
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        if isinstance(error, GeneratorExit) and not is_current(task):
            raise
        LOG.error("%s of %s failed", name, type(step).__name__, extra=log_fields(error))
