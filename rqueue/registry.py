"""The handlers of a queue: what runs a type of task, with its arguments and result as types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NotRequired, get_args, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError, with_config
from pydantic_core import CoreConfig, SchemaSerializer
from typing_extensions import TypedDict

from rqueue.context import Context
from rqueue.errors import ConfigError, InvalidTask
from rqueue.hooks import Depends
from rqueue.model.checked import NAME, NAME_RULE, broken
from rqueue.model.codec import encode
from rqueue.model.reference import Reference, divided, waits

Kind = Literal["async", "thread", "process"]
Ack = Literal["after", "before"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ACKS: tuple[Ack, ...] = get_args(Ack)

POSITIONAL = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Handler:
    """A function that runs the tasks of one type, and what its tasks have in common."""

    type: str
    function: Callable[..., Any]
    kind: Kind
    ack: Ack = "after"
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's parameters with their types, forward references resolved."""
        try:
            hints = get_type_hints(typed(self.function), include_extras=True)
        except NameError as error:
            rule = f"{error}: import it where the handler stands, not only for type checkers"
            raise ConfigError(f"task {self.type}", rule) from error
        given = inspect.signature(self.function)
        parameters = [
            parameter.replace(annotation=hints.get(name, Any))
            for name, parameter in given.parameters.items()
        ]
        return given.replace(parameters=parameters, return_annotation=hints.get("return", Any))

    @cached_property
    def context(self) -> str | None:
        """The name of the parameter that takes the context, if there is one."""
        for name, parameter in self.signature.parameters.items():
            if takes_context(parameter.annotation):
                return name
        return None

    @cached_property
    def dependencies(self) -> dict[str, Depends]:
        """The parameters that are provided, not sent."""
        found = {name: provider(p) for name, p in self.signature.parameters.items()}
        return {name: depends for name, depends in found.items() if depends is not None}

    @cached_property
    def sent(self) -> inspect.Signature:
        """The parameters that a task brings along."""
        left = [
            parameter
            for name, parameter in self.signature.parameters.items()
            if name != self.context and name not in self.dependencies
        ]
        for parameter in left:
            if parameter.kind not in POSITIONAL:
                raise ConfigError(
                    f"task {self.type}", f"parameter {parameter.name} must have a name of its own"
                )
        return self.signature.replace(parameters=left)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The sent parameters that may be given by their place."""
        found = self.sent.parameters.values()
        return tuple(p.name for p in found if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @cached_property
    def required(self) -> frozenset[str]:
        """The sent parameters that have no default."""
        found = self.sent.parameters.values()
        return frozenset(p.name for p in found if p.default is inspect.Parameter.empty)

    @cached_property
    def arguments(self) -> TypeAdapter[dict[str, Any]]:
        """The sent parameters as one typed mapping; what has a default may be missing."""
        return self.mapping(self.required)

    @cached_property
    def some_arguments(self) -> TypeAdapter[dict[str, Any]]:
        """The same for a call whose other arguments are there later."""
        return self.mapping(frozenset())

    def mapping(self, required: frozenset[str]) -> TypeAdapter[dict[str, Any]]:
        """The sent parameters as one typed mapping in which these must be there."""
        fields = {
            name: parameter.annotation if name in required else NotRequired[parameter.annotation]
            for name, parameter in self.sent.parameters.items()
        }
        # The functional form: the names are known only now.
        make: Any = TypedDict
        shape: Any = with_config(ConfigDict(extra="forbid"))(make(self.type, fields))
        return self.adapted(shape)

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """What the function returns."""
        return self.adapted(self.signature.return_annotation)

    def adapted(self, shape: Any) -> TypeAdapter[Any]:
        """What checks values of a type, or ConfigError where pydantic knows none."""
        try:
            return TypeAdapter(shape)
        except PydanticUserError as error:
            raise ConfigError(f"task {self.type}", str(error).splitlines()[0]) from error

    @cached_property
    def written(self) -> SchemaSerializer:
        """What writes it: as it is, where pydantic's own would write NaN as null."""
        return SchemaSerializer(self.result.core_schema, CoreConfig(ser_json_inf_nan="constants"))

    @property
    def place(self) -> tuple[str, str]:
        """The module and the name where another process finds the function; ConfigError where it
        has none, since it is made anew with each call of what surrounds it.
        """
        module = getattr(self.function, "__module__", None)
        name = getattr(self.function, "__qualname__", None)
        if module is None or name is None or "<" in name:
            rule = "a process of its own cannot import it: define it with `def` in a module"
            raise ConfigError(f"task {self.type}", rule)
        return module, name

    def payload_of(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call as a payload, or InvalidTask where they do not fit. Those that
        outputs will fill are left out, see `Output`.
        """
        return self.parts_of(*args, **kwargs)[0]

    def parts_of(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Reference]]:
        """The payload of a call, and the references of the arguments that outputs will fill."""
        given = dict(zip(self.places, args, strict=False)) | kwargs
        if len(given) != len(args) + len(kwargs) or not self.required <= given.keys():
            # The slow way says what is missing, too many, or there twice.
            given = self.bound(*args, **kwargs)
        if not any(map(waits, given.values())):
            return self.as_json(self.checked(given)), {}
        there, later = divided(given)
        return self.as_json(self.checked(there, self.some_arguments)), later

    def as_json(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments as JSON values, or InvalidTask with the name of the one that cannot be so."""
        found: dict[str, Any]
        try:
            # Not only warned of: what is not as its type says would fail in the worker.
            found = self.some_arguments.dump_python(arguments, mode="json", warnings="error")
        except ValueError as error:
            if len(arguments) > 1:
                for name, value in arguments.items():
                    self.as_json({name: value})
            rule = f"cannot be written as JSON: {str(error).splitlines()[-1].strip()}"
            raise InvalidTask(".".join(["arguments", *arguments]), rule) from None
        return found

    def bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by their names."""
        try:
            return self.sent.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidTask("arguments", f"do not fit {self.type}: {error}") from None

    def arguments_of(self, payload: object) -> dict[str, Any]:
        """The arguments that a payload means, or InvalidTask."""
        names = list(self.sent.parameters)
        if not isinstance(payload, Mapping) and len(names) == 1:
            payload = {names[0]: payload}
        return self.checked(payload)

    def checked(
        self, arguments: object, by: TypeAdapter[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Arguments as their types say; all that are required, unless it is said by what."""
        try:
            return (by or self.arguments).validate_python(arguments)
        except ValidationError as error:
            raise broken(error.errors(include_url=False)[0], "arguments") from None

    def encoded(self, value: object, max_bytes: int) -> bytes:
        """A result as it is stored; raises InvalidTask where it is not what the type says."""
        if value is None and self.signature.return_annotation in (None, type(None), Any):
            return b""
        try:
            found = self.written.to_python(self.result.validate_python(value), mode="json")
        except (ValidationError, ValueError) as error:
            raise InvalidTask("result", f"is not what {self.type} promises: {error}") from error
        return encode(found, field="result", max_bytes=max_bytes)


class Registry:
    """The handlers of one queue, by type."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Takes a handler; one type has one."""
        if NAME.fullmatch(handler.type) is None:
            raise ConfigError("task type", NAME_RULE)
        if handler.ack not in ACKS:
            raise ConfigError("ack", f"is one of {', '.join(ACKS)}, not {handler.ack!r}")
        priced = {"estimated_cost_usd", "max_cost_usd"} & handler.options.keys()
        if handler.ack == "before" and priced:
            rule = "comes too late for a task with ack='before': it has ended when it runs"
            raise ConfigError(sorted(priced)[0], rule)
        if handler.ack == "before" and handler.options.get("validation", "none") != "none":
            raise ConfigError("validation", "comes too late for a task with ack='before'")
        known = self.handlers.get(handler.type)
        if known is not None and known.function is not handler.function:
            raise ConfigError(f"task {handler.type}", "has a handler already")
        # Resolved now: a wrong signature is told where it stands, not when it first runs.
        handler.arguments, handler.written  # noqa: B018
        if handler.kind == "process":
            handler.place  # noqa: B018
        self.handlers[handler.type] = handler


def typed(function: Any) -> Any:
    """The function whose types a callable has: a partial's, or that which calls an object."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return function.__call__


def takes_context(annotation: Any) -> bool:
    """Whether a parameter of this type is given the context."""
    return Context in (annotation, *get_args(annotation))


def provider(parameter: inspect.Parameter) -> Depends | None:
    """What provides a parameter: its default, or what stands beside its type in `Annotated`."""
    said = (parameter.default, *getattr(parameter.annotation, "__metadata__", ()))
    return next((found for found in said if isinstance(found, Depends)), None)


def kind_of(function: Callable[..., Any], kind: Kind | None) -> Kind:
    """How a function runs: coroutines on the loop, others in a thread, or as it was said."""
    if kind is not None and kind not in KINDS:
        raise ConfigError("kind", f"is one of {', '.join(KINDS)}, not {kind!r}")
    runs = typed(function)
    if inspect.isgeneratorfunction(runs) or inspect.isasyncgenfunction(runs):
        raise ConfigError("handler", "yields, and a task has one result: let it return")
    is_async = inspect.iscoroutinefunction(runs)
    if kind == "async" and not is_async:
        raise ConfigError("kind", "async needs a coroutine function (async def)")
    if kind == "thread" and is_async:
        raise ConfigError("kind", "thread needs a plain function (def)")
    return kind or ("async" if is_async else "thread")
