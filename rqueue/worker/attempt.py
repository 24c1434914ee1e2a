"""One attempt: prepares the task, runs its handler, and turns any exception into an outcome."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.clock import SYSTEM
from rqueue.errors import (
    BudgetExceeded,
    InvalidTask,
    RateLimited,
    Reject,
    Retry,
    StoreUnavailable,
    SubtaskFailed,
)
from rqueue.task.attempt.classify import is_limited, is_outside, longest, reason_in, requested_wait
from rqueue.task.attempt.error_text import group_members
from rqueue.task.attempt.outcome import Cause, Failed, Reason, with_history
from rqueue.task.attempt.verdict import refused
from rqueue.worker.context import Suspended
from rqueue.worker.context.inputs import filled
from rqueue.worker.context.steps import plainly

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.middleware import Depends, Hooks
    from rqueue.store.shard import Shard
    from rqueue.task.spec import TaskSpec
    from rqueue.worker.children.pool import SubprocessPool
    from rqueue.worker.context import Context
    from rqueue.worker.handler import Handler
    from rqueue.worker.threads import Threads


MAX_TRACE_LINES = 40
# Of a longer text the beginning and the end are kept.
MAX_TRACE_CHARS = 8000
FROM_WITHIN = "the handler was cancelled by its own code"
RETRY_SEC = 0.5
# After this many failed attempts `fallback_models` are used.
FALLS_BACK_AFTER = 2


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result that was checked and encoded in the subprocess."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Runners:
    """The threads and subprocesses that run handlers outside of the event loop."""

    threads: Threads
    subprocesses: SubprocessPool

    async def aclose(self) -> None:
        """Ends the subprocesses and the idle threads; threads of stopped handlers run on."""
        self.threads.close()
        await self.subprocesses.aclose()


async def perform(
    handler: Handler, payload: object, ctx: Context, hooks: Hooks, *, runners: Runners
) -> object:
    """Runs the handler and returns its result, Failed, or Suspended. No exception of a handler is
    raised from here, only the cancel of the attempt itself.
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
            return await runners.subprocesses.run(handler, ctx)
        return await perform_with(handler, arguments, ctx, runners.threads)
    except asyncio.CancelledError:
        if ctx.stopped:
            raise
        return Failed(Reason.CANCELLED, FROM_WITHIN)
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: a handler ends its attempt, never its worker.
        return Suspended() if ctx.suspended and is_suspension(error) else failure_of(error)


async def perform_with(
    handler: Handler, arguments: dict[str, Any], ctx: Context, threads: Threads
) -> object:
    """Runs a handler with its dependencies, on the event loop or in a thread."""
    async with AsyncExitStack() as stack:
        arguments |= await provided(handler.dependencies, ctx, stack)
        if handler.kind == "async":
            return await handler.function(**arguments)
        return await threads.run(partial(plainly, handler.function, **arguments))


def prepared(handler: Handler, payload: object, ctx: Context) -> dict[str, Any] | Failed:
    """The handler's arguments from the payload, with the context if it takes one."""
    try:
        arguments = handler.arguments_of(payload)
    except InvalidTask as error:
        # The payload does not change, so a retry would fail again.
        return Failed(Reason.ERROR, str(error), permanent=True)
    if handler.context is not None:
        arguments[handler.context] = ctx
    return arguments


def encoded(handler: Handler, value: object, max_bytes: int) -> bytes | Failed:
    """A handler's return value as it is stored, or Failed. Iterators are refused, since an endless
    one would block the event loop.
    """
    kind = type(value)
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return Failed(Reason.INVALID_OUTPUT, f"result: is a {kind.__name__}: return a list")
    try:
        return handler.encoded(value, max_bytes)
    except InvalidTask as error:
        return Failed(Reason.INVALID_OUTPUT, str(error))


def is_suspension(error: BaseException) -> bool:
    """Whether the exception, or one inside of its group, is Suspended."""
    return any(isinstance(one, Suspended) for one in group_members(error))


def failure_of(error: BaseException) -> Failed:
    """The failure that an exception means. In a group the order is: exceptions that end the task,
    then a rate limit, since waiting spends no attempt and the other error would recur, then Retry,
    then errors (see `reason_in`).
    """
    raised = group_members(error)
    if any(isinstance(one, BudgetExceeded) for one in raised):
        # The same failure as for a run that is known to exceed its budget.
        return Failed(Reason.BUDGET_EXCEEDED, described(error), permanent=True)
    for one in raised:
        if isinstance(one, Reject):
            return Failed(Reason.ERROR, one.reason, permanent=True)
    if any(isinstance(one, SubtaskFailed) for one in raised):
        # The same keys mean the same tasks, so a retry would fail again.
        return Failed(Reason.ERROR, described(error), permanent=True)
    if is_limited(error):
        message = error.reason if isinstance(error, RateLimited) else described(error)
        return Failed(Reason.RATE_LIMIT, message, False, requested_wait(error, SYSTEM.now()))
    retries = [one for one in raised if isinstance(one, Retry)]
    if retries:
        first, *more = retries
        after = longest(one.after for one in retries) if more else first.after
        why = first.reason or "the handler asked for a retry"
        return Failed(Reason.ERROR, why, False, after, Cause.REQUESTED)
    cause = Cause.OUTSIDE if is_outside(error) else Cause.WITHIN
    return Failed(reason_in(raised), described(error), cause=cause)


def described(error: BaseException) -> str:
    """The end of the traceback; never raises."""
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
    """The values of the dependencies. Each function is called once per attempt."""
    given: dict[Any, Any] = {}
    for depends in wanted.values():
        if depends.provide not in given:
            given[depends.provide] = await provide(depends.provide, ctx, stack)
    return {name: given[depends.provide] for name, depends in wanted.items()}


async def provide(function: Any, ctx: Context, stack: AsyncExitStack) -> Any:
    """The value of one dependency; a generator is closed when the attempt ends."""
    call = partial(function, ctx) if inspect.signature(function).parameters else function
    if inspect.isasyncgenfunction(function):
        return await stack.enter_async_context(asynccontextmanager(call)())
    if inspect.isgeneratorfunction(function):
        return stack.enter_context(contextmanager(call)())
    found = call()
    return await found if inspect.isawaitable(found) else found


T = TypeVar("T")


async def prepare_task(
    ctx: Context, shard: Shard, shelf: Shelf, models: Collection[str]
) -> Failed | None:
    """Checks a task that has options, chooses its model and fills its inputs. Returns Failed if it
    must not run, else None.
    """
    task = ctx.task
    bad = refused(task)
    if bad is not None:
        return bad
    model = model_for(task.spec, task.attempts, models)
    if isinstance(model, Failed):
        return model
    ctx.backend.model = model
    try:
        ctx.task = await until_answered(lambda: filled(shard, shelf, task))
    except InvalidTask as error:
        # A missing input does not come back, so a retry would fail again.
        return Failed(Reason.ERROR, str(error), permanent=True)
    return None


async def with_failure_history(ctx: Context, payload: Any) -> Any:
    """The payload with the failures of earlier attempts, which is set on the task too."""
    history = (await until_answered(ctx.backend.current)).failure_history
    whole = with_history(payload, history)
    spec = ctx.task.spec.model_copy(update={"payload": whole})
    ctx.task = ctx.task.model_copy(update={"spec": spec})
    return whole


async def until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats a call while Redis is unavailable; the attempt's timeout is the limit."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(RETRY_SEC)


def wanted(spec: TaskSpec, attempts: int) -> tuple[str, ...]:
    """The models for the next attempt, in order of preference; empty if any will do."""
    if spec.fallback_models and attempts >= FALLS_BACK_AFTER:
        return spec.fallback_models
    return spec.model_preferences


def model_for(spec: TaskSpec, attempts: int, offered: Collection[str]) -> str | Failed | None:
    """The model for an attempt after `attempts` failed ones. None if the task names no model;
    Failed if this worker offers none of them. A worker without models takes any.
    """
    names = wanted(spec, attempts)
    if not names:
        return None
    if not offered:
        return names[0]
    found = next((name for name in names if name in offered), None)
    if found is not None:
        return found
    rule = f"the task needs one of the models {', '.join(names)}; this worker has"
    way_out = "start a worker with --model for one of them, or change the task's preferences"
    why = f"{rule} {', '.join(sorted(offered))}: {way_out}"
    return Failed(Reason.ERROR, why, cause=Cause.OUTSIDE)
