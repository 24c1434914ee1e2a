"""Task functions: a handler that can be enqueued with its own typed arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from rqueue.errors import ConfigError
from rqueue.sync import Blocking
from rqueue.task.spec import Call, merged
from rqueue.worker.handler import Ack, Handler, Kind, Registry, kind_of

if TYPE_CHECKING:
    from rqueue.producer.drafts import Drafter
    from rqueue.producer.handle import Handle
    from rqueue.worker.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class TaskQueue(Protocol):
    """The parts of a queue that a task function needs."""

    registry: Registry
    drafter: Drafter

    async def enqueue_call(self, call: Call) -> Handle: ...


class TaskFunction(Generic[P, R]):
    """A registered handler. Calling it runs the function; `enqueue` submits a task."""

    def __init__(
        self, handler: Handler, queue: TaskQueue, options: Mapping[str, Any] | None = None
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
        """Calls the function directly, without the queue, for tests and reuse."""
        return self.handler.function(*args, **kwargs)

    @property
    def type(self) -> str:
        """The type of its tasks."""
        return self.handler.type

    def options(self, **options: Any) -> TaskFunction[P, R]:
        """Returns the same function with other options for its tasks. They override those of the
        handler; names are field names of the task model.
        """
        return TaskFunction(self.handler, self.queue, merged(self.given, options))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Returns a call for `enqueue_many` or a DAG. Raises InvalidTask if the arguments do not
        fit the function; arguments that refer to outputs of other tasks are checked when the
        outputs exist.
        """
        payload, inputs = self.handler.parts_of(*args, **kwargs)
        options = {**self.given, "inputs": inputs} if inputs else self.given
        return Call(self.handler.type, payload, options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Enqueues a task with these arguments and returns its handle. Raises the errors of
        `Queue.enqueue`.
        """
        return await self.queue.enqueue_call(self.call(*args, **kwargs))


class BlockingFunction(Generic[P]):
    """The blocking version of a task function, for code without an event loop."""

    def __init__(self, function: TaskFunction[P, Any]) -> None:
        self.blocking = Blocking(function)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Enqueues a task and returns a handle whose calls are blocking too."""
        return self.blocking.enqueue(*args, **kwargs)


class Decorator(Protocol):
    """The type of `queue.task(...)`: keeps the argument types without the context."""

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
    queue: TaskQueue, type: str, options: Mapping[str, Any], *, kind: Kind | None, ack: Ack
) -> Decorator:
    """Returns the decorator that registers a function as the handler of a type. Raises InvalidTask
    for a wrong option, ConfigError for the option `payload`.
    """
    if "payload" in options:
        raise ConfigError(
            f"task {type}", "must not have the option payload: the arguments are the payload"
        )
    queue.drafter.spec({**options, "type": type})

    def register(function: Callable[..., Any]) -> TaskFunction[Any, Any]:
        if isinstance(function, TaskFunction):
            # Decorated twice: one function may handle several types.
            function = function.handler.function
        handler = Handler(type, function, kind_of(function, kind), ack, options)
        queue.registry.add(handler)
        return TaskFunction(handler, queue)

    return register
