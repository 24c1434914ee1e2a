"""One attempt: a handler is run with its arguments, and whatever happens becomes an outcome."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.clock import SYSTEM
from rqueue.context import Suspended
from rqueue.context.steps import plainly
from rqueue.errors import (
    BudgetExceeded,
    InvalidTask,
    RateLimited,
    Reject,
    Retry,
    SubtaskFailed,
)
from rqueue.model.attempt import Cause, Failed, Reason
from rqueue.policy.behind import together
from rqueue.policy.fault import is_outside, reason_in
from rqueue.policy.limiting import is_limited, longest, wait_asked

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.hooks import Depends, Hooks
    from rqueue.registry import Handler
    from rqueue.services.children.pool import Children
    from rqueue.services.threads import Threads

MAX_TRACE_LINES = 40
# Of a longer text its beginning and its end are kept.
MAX_TRACE_CHARS = 8000
FROM_WITHIN = "the handler was cancelled from within"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result that was checked and encoded where its handler ran."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Places:
    """Where handlers run that do not run on the event loop."""

    threads: Threads
    children: Children

    async def aclose(self) -> None:
        """Ends the processes and what threads are idle; those of stopped handlers run on."""
        self.threads.close()
        await self.children.aclose()


async def perform(
    handler: Handler, payload: object, ctx: Context, hooks: Hooks, *, places: Places
) -> object:
    """What the handler returns, the Failed that it ended as, or the Suspended that left it. Nothing
    a handler raises passes here, save the cancel of the code around it.
    """
    arguments = prepared(handler, payload, ctx)
    if isinstance(arguments, Failed):
        return arguments
    try:
        for step in hooks.middleware:
            await step.before_attempt(ctx)
        if handler.kind == "async" and not handler.dependencies:
            return await handler.function(**arguments)
        if handler.kind == "process":
            return await places.children.run(handler, ctx)
        return await perform_with(handler, arguments, ctx, places.threads)
    except asyncio.CancelledError:
        if ctx.stopped:
            raise
        return Failed(Reason.CANCELLED, FROM_WITHIN)
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: a handler ends its attempt, never its worker.
        return Suspended() if ctx.suspended and makes_way(error) else failure_of(error)


async def perform_with(
    handler: Handler, arguments: dict[str, Any], ctx: Context, threads: Threads
) -> object:
    """The handler with what is provided to it, on the event loop or in a thread."""
    async with AsyncExitStack() as stack:
        arguments |= await provided(handler.dependencies, ctx, stack)
        if handler.kind == "async":
            return await handler.function(**arguments)
        return await threads.run(partial(plainly, handler.function, **arguments))


def prepared(handler: Handler, payload: object, ctx: Context) -> dict[str, Any] | Failed:
    """The arguments that a payload means, and the context."""
    try:
        arguments = handler.arguments_of(payload)
    except InvalidTask as error:
        # No attempt could do better with these arguments.
        return Failed(Reason.ERROR, str(error), permanent=True)
    if handler.context is not None:
        arguments[handler.context] = ctx
    return arguments


def encoded(handler: Handler, value: object, max_bytes: int) -> bytes | Failed:
    """What a handler returned as it is stored, or the failure that it is. Iterators are refused,
    finite ones too: one that never ends would be read for ever, on the event loop.
    """
    kind = type(value)
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return Failed(Reason.INVALID_OUTPUT, f"result: is a {kind.__name__}: return a list")
    try:
        return handler.encoded(value, max_bytes)
    except InvalidTask as error:
        return Failed(Reason.INVALID_OUTPUT, str(error))


def makes_way(error: BaseException) -> bool:
    """Whether it is a handler's task that left; what runs in a group of tasks comes in a group."""
    return any(isinstance(one, Suspended) for one in together(error))


def failure_of(error: BaseException) -> Failed:
    """What an exception of a handler means. Of several in a group what ends the task comes first,
    for no attempt could do better; then a limited service, for waiting spends nothing and what
    else is wrong is met again; then a wish for another attempt; last errors (see `reason_in`).
    """
    raised = together(error)
    if any(isinstance(one, BudgetExceeded) for one in raised):
        # As a worker says of a run that it knows to cost too much, whatever its handler raises.
        return Failed(Reason.BUDGET_EXCEEDED, described(error), permanent=True)
    for one in raised:
        if isinstance(one, Reject):
            return Failed(Reason.ERROR, one.reason, permanent=True)
    if any(isinstance(one, SubtaskFailed) for one in raised):
        # The same keys mean the same tasks: another attempt would find them as they are.
        return Failed(Reason.ERROR, described(error), permanent=True)
    if is_limited(error):
        message = error.reason if isinstance(error, RateLimited) else described(error)
        return Failed(Reason.RATE_LIMIT, message, False, wait_asked(error, SYSTEM.now()))
    retries = [one for one in raised if isinstance(one, Retry)]
    if retries:
        first, *more = retries
        after = longest(one.after for one in retries) if more else first.after
        why = first.reason or "the handler asked for a retry"
        return Failed(Reason.ERROR, why, False, after, Cause.ASKED)
    cause = Cause.OUTSIDE if is_outside(error) else Cause.WITHIN
    return Failed(reason_in(raised), described(error), cause=cause)


def described(error: BaseException) -> str:
    """The error with the end of its traceback; made so that no exception can break it."""
    try:
        text = "".join(traceback.format_exception(error, limit=-MAX_TRACE_LINES)).strip()
        if len(text) <= MAX_TRACE_CHARS:
            return text
        half = MAX_TRACE_CHARS // 2
        return f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"
    except BaseException:
        # An exception's own __str__ may raise anything.
        return type(error).__name__


async def provided(
    wanted: dict[str, Depends], ctx: Context, stack: AsyncExitStack
) -> dict[str, Any]:
    """What the dependencies give; each function is asked once an attempt."""
    given: dict[Any, Any] = {}
    for depends in wanted.values():
        if depends.provide not in given:
            given[depends.provide] = await provide(depends.provide, ctx, stack)
    return {name: given[depends.provide] for name, depends in wanted.items()}


async def provide(function: Any, ctx: Context, stack: AsyncExitStack) -> Any:
    """What one dependency gives; a generator is closed when the attempt ends."""
    ask = partial(function, ctx) if inspect.signature(function).parameters else function
    if inspect.isasyncgenfunction(function):
        return await stack.enter_async_context(asynccontextmanager(ask)())
    if inspect.isgeneratorfunction(function):
        return stack.enter_context(contextmanager(ask)())
    found = ask()
    return await found if inspect.isawaitable(found) else found
