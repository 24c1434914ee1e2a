"""What users hang into the worker: dependencies, resources, and steps around each attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.model.attempt import Completed, Failed

T = TypeVar("T")


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
    """Steps around each attempt of a worker; override what is needed. What they raise before the
    attempt fails it; what they raise after it is logged and changes nothing.
    """

    async def before_attempt(self, ctx: Context) -> None:
        """Before the handler runs."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        """After it returned or failed, before the outcome is written. Not for an attempt that was
        stopped from outside.
        """


Lifespan = Callable[[dict[str, Any]], AbstractAsyncContextManager[None]]


@dataclass
class Hooks:
    """All that hangs into the workers of one queue."""

    middleware: list[Middleware] = field(default_factory=list)
    lifespans: list[Lifespan] = field(default_factory=list)
