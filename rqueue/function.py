"""A task as a function: called with its own arguments, checked by its own types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from rqueue.errors import ConfigError
from rqueue.model.call import Call, merged
from rqueue.registry import Ack, Handler, Kind, Registry, kind_of
from rqueue.sync import Blocking

if TYPE_CHECKING:
    from rqueue.client.drafts import Drafter
    from rqueue.client.handle import Handle
    from rqueue.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Taker(Protocol):
    """What a task function asks of its queue."""

    registry: Registry
    drafter: Drafter

    async def enqueue_call(self, call: Call) -> Handle: ...


class TaskFunction(Generic[P, R]):
    """A registered handler. Called, it is the plain function; `enqueue` makes a task of it."""

    def __init__(
        self, handler: Handler, queue: Taker, options: Mapping[str, Any] | None = None
    ) -> None:
        self.handler = handler
        self.queue = queue
        self.given = handler.options if options is None else options
        self.sync: BlockingFunction[P] = BlockingFunction(self)
        self.__doc__ = handler.function.__doc__
        self.__name__ = getattr(handler.function, "__name__", handler.type)

    def __repr__(self) -> str:
        return f"TaskFunction({self.handler.type!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, with nothing of the queue: for tests and for reuse."""
        return self.handler.function(*args, **kwargs)

    @property
    def type(self) -> str:
        """The type of its tasks."""
        return self.handler.type

    def options(self, **options: Any) -> TaskFunction[P, R]:
        """The same function whose tasks have these options (the model's own field names)."""
        return TaskFunction(self.handler, self.queue, merged(self.given, options))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A task of it, to be given to `enqueue_many` or a DAG; raises InvalidTask where it does
        not fit. What is given as another task's output is checked when it is there.
        """
        payload, inputs = self.handler.parts_of(*args, **kwargs)
        options = {**self.given, "inputs": inputs} if inputs else self.given
        return Call(self.handler.type, payload, options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Takes a task of it."""
        return await self.queue.enqueue_call(self.call(*args, **kwargs))


class BlockingFunction(Generic[P]):
    """The same for code without an event loop."""

    def __init__(self, function: TaskFunction[P, Any]) -> None:
        self.twin = Blocking(function)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Takes a task of it; the handle's calls are blocking too."""
        return self.twin.enqueue(*args, **kwargs)


class Decorator(Protocol):
    """What `queue.task(...)` gives: it keeps the arguments' types, without the context."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], /
    ) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


def decorator(
    queue: Taker, type: str, options: Mapping[str, Any], *, kind: Kind | None, ack: Ack
) -> Decorator:
    """Makes a function the handler of a type; raises InvalidTask where an option is wrong."""
    if "payload" in options:
        raise ConfigError(f"task {type}", "has no payload of its own: its arguments are that")
    queue.drafter.spec({**options, "type": type})

    def register(function: Callable[..., Any]) -> TaskFunction[Any, Any]:
        if isinstance(function, TaskFunction):
            # Decorated twice: one function may serve several types.
            function = function.handler.function
        handler = Handler(type, function, kind_of(function, kind), ack, options)
        queue.registry.add(handler)
        return TaskFunction(handler, queue)

    return register
