"""One attempt: a handler is run with its arguments, and whatever happens becomes an outcome."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.errors import InvalidTask, Reject, Retry
from rqueue.model.attempt import Failed, Reason, reason_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rqueue.context import Context
    from rqueue.hooks import Depends, Hooks
    from rqueue.registry import Handler

MAX_TRACE_LINES = 40


async def perform(
    handler: Handler, payload: object, ctx: Context, hooks: Hooks, *, threads: Executor
) -> object:
    """What the handler returns, or the Failed that it ended as. Nothing a handler raises passes
    here, save the cancel of the code around it.
    """
    try:
        arguments = handler.arguments_of(payload)
    except InvalidTask as error:
        # No attempt could do better with these arguments.
        return Failed(Reason.ERROR, str(error), permanent=True)
    try:
        for step in hooks.middleware:
            await step.before_attempt(ctx)
        if handler.context is not None:
            arguments[handler.context] = ctx
        if handler.kind == "async" and not handler.dependencies:
            return await handler.function(**arguments)
        return await perform_with(handler, arguments, ctx, threads)
    except asyncio.CancelledError:
        if ctx.stopped:
            raise
        return Failed(Reason.CANCELLED, "the handler was cancelled from within")
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: a handler ends its attempt, never its worker.
        return failure_of(error)


async def perform_with(
    handler: Handler, arguments: dict[str, Any], ctx: Context, threads: Executor
) -> object:
    """The handler with what is provided to it, on the event loop or in a thread."""
    async with AsyncExitStack() as stack:
        arguments |= await provided(handler.dependencies, ctx, stack)
        if handler.kind == "async":
            return await handler.function(**arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, partial(plainly, handler.function, arguments))


def plainly(function: Any, arguments: dict[str, Any]) -> Any:
    """Calls a function in its thread; a StopIteration could not pass to the event loop."""
    try:
        return function(**arguments)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


def failure_of(error: BaseException) -> Failed:
    """What an exception of a handler means."""
    match error:
        case Retry(after=after, reason=reason):
            return Failed(Reason.ERROR, reason or "the handler asked for a retry", False, after)
        case Reject(reason=reason):
            return Failed(Reason.ERROR, reason, permanent=True)
        case _:
            return Failed(reason_of(error), described(error))


def described(error: BaseException) -> str:
    """The error with the end of its traceback; made so that no exception can break it."""
    try:
        lines = traceback.format_exception(error, limit=-MAX_TRACE_LINES)
        return "".join(lines)[-8000:].strip()
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
