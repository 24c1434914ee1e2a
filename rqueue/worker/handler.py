"""Handlers: the function of a task type, with its arguments and result as types."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, Literal, NotRequired, get_args, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError, with_config
from pydantic_core import CoreConfig, SchemaSerializer
from typing_extensions import TypedDict

from rqueue.errors import ConfigError, InvalidTask
from rqueue.middleware import Depends
from rqueue.task.codec import encode
from rqueue.task.fields import NAME, NAME_RULE, broken
from rqueue.task.references import Reference, is_output, split_arguments
from rqueue.worker.context import Context

if TYPE_CHECKING:
    from types import ModuleType

Kind = Literal["async", "thread", "process"]
Ack = Literal["after", "before"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ACKS: tuple[Ack, ...] = get_args(Ack)

POSITIONAL = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Handler:
    """The function of one task type, with the options of its tasks."""

    type: str
    function: Callable[..., Any]
    kind: Kind
    ack: Ack = "after"
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's parameters with their types; forward references are resolved."""
        try:
            hints = get_type_hints(typed(self.function), include_extras=True)
        except NameError as error:
            rule = f"{error}: import it in the handler's module, not only for type checkers"
            raise ConfigError(f"task {self.type}", rule) from error
        given = inspect.signature(self.function)
        parameters = [
            parameter.replace(annotation=hints.get(name, Any))
            for name, parameter in given.parameters.items()
        ]
        return given.replace(parameters=parameters, return_annotation=hints.get("return", Any))

    @cached_property
    def context(self) -> str | None:
        """The name of the parameter that takes the context, if any."""
        for name, parameter in self.signature.parameters.items():
            if takes_context(parameter.annotation):
                return name
        return None

    @cached_property
    def dependencies(self) -> dict[str, Depends]:
        """The parameters that are provided by `depends`."""
        found = {name: provider(p) for name, p in self.signature.parameters.items()}
        return {name: depends for name, depends in found.items() if depends is not None}

    @cached_property
    def sent(self) -> inspect.Signature:
        """The parameters that the payload contains."""
        left = [
            parameter
            for name, parameter in self.signature.parameters.items()
            if name != self.context and name not in self.dependencies
        ]
        for parameter in left:
            if parameter.kind not in POSITIONAL:
                raise ConfigError(
                    f"task {self.type}",
                    f"parameter {parameter.name} must not be positional-only or variadic",
                )
        return self.signature.replace(parameters=left)

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """The sent parameters that may be given by position."""
        found = self.sent.parameters.values()
        return tuple(p.name for p in found if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @cached_property
    def required(self) -> frozenset[str]:
        """The sent parameters without a default."""
        found = self.sent.parameters.values()
        return frozenset(p.name for p in found if p.default is inspect.Parameter.empty)

    @cached_property
    def arguments(self) -> TypeAdapter[dict[str, Any]]:
        """The sent parameters as a typed mapping; those with a default are optional."""
        return self.mapping(self.required)

    @cached_property
    def some_arguments(self) -> TypeAdapter[dict[str, Any]]:
        """The same with all parameters optional, for a call whose other arguments are
        references.
        """
        return self.mapping(frozenset())

    def mapping(self, required: frozenset[str]) -> TypeAdapter[dict[str, Any]]:
        """The sent parameters as a typed mapping with these required."""
        fields = {
            name: parameter.annotation if name in required else NotRequired[parameter.annotation]
            for name, parameter in self.sent.parameters.items()
        }
        # The functional form: the names are only known at run time.
        make: Any = TypedDict
        shape: Any = with_config(ConfigDict(extra="forbid"))(make(self.type, fields))
        return self.adapted(shape)

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """The type of the function's result."""
        return self.adapted(self.signature.return_annotation)

    def adapted(self, shape: Any) -> TypeAdapter[Any]:
        """A TypeAdapter; raises ConfigError for a type that pydantic does not support."""
        try:
            adapter = TypeAdapter(shape)
            # A model with `defer_build` has no schema before.
            adapter.rebuild()
        except PydanticUserError as error:
            raise ConfigError(f"task {self.type}", str(error).splitlines()[0]) from error
        return adapter

    @cached_property
    def written(self) -> SchemaSerializer:
        """Serializes results; unlike pydantic's default it does not write NaN as null."""
        return SchemaSerializer(self.result.core_schema, CoreConfig(ser_json_inf_nan="constants"))

    @property
    def import_path(self) -> tuple[str, str]:
        """The module and the qualified name from which another process can import the function.
        Raises ConfigError for a lambda or a nested function.
        """
        module = getattr(self.function, "__module__", None)
        name = getattr(self.function, "__qualname__", None)
        if module is None or name is None or "<" in name:
            rule = "a subprocess cannot import it: define it with `def` at module level"
            raise ConfigError(f"task {self.type}", rule)
        return module, name

    def check_importable(self) -> None:
        """Raises ConfigError if a subprocess could not import the function."""
        module, name = self.import_path
        if module == "__main__":
            rule = (
                "is in the main module, which a subprocess cannot import: move it to another "
                "module and run `rqueue worker MODULE:QUEUE`"
            )
            raise ConfigError(f"task {self.type}", rule)
        if function_at(module, name) is not self.function:
            rule = f"a subprocess would import another function from {module}.{name}"
            raise ConfigError(f"task {self.type}", rule)

    def parts_of(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Reference]]:
        """The payload of a call, and the references of the arguments that other outputs
        will fill.
        """
        given = dict(zip(self.positional, args, strict=False)) | kwargs
        if len(given) != len(args) + len(kwargs) or not self.required <= given.keys():
            # `bind` reports what is missing, superfluous or given twice.
            given = self.bound(*args, **kwargs)
        if not any(map(is_output, given.values())):
            return self.as_json(self.checked(given)), {}
        there, later = split_arguments(given)
        return self.as_json(self.checked(there, self.some_arguments)), later

    def as_json(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments as JSON values; raises InvalidTask with the name of the one that cannot be
        written.
        """
        found: dict[str, Any]
        try:
            # An error instead of a warning: a value that is not of its type would fail in the
            # worker.
            found = self.some_arguments.dump_python(arguments, mode="json", warnings="error")
        except ValueError as error:
            if len(arguments) > 1:
                for name, value in arguments.items():
                    self.as_json({name: value})
            rule = f"cannot be written as JSON: {str(error).splitlines()[-1].strip()}"
            raise InvalidTask(".".join(["arguments", *arguments]), rule) from None
        return found

    def bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by name."""
        try:
            return self.sent.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidTask("arguments", f"do not fit {self.type}: {error}") from None

    def arguments_of(self, payload: object) -> dict[str, Any]:
        """The arguments of a payload; raises InvalidTask."""
        names = list(self.sent.parameters)
        if not isinstance(payload, Mapping) and len(names) == 1:
            payload = {names[0]: payload}
        return self.checked(payload)

    def checked(
        self, arguments: object, by: TypeAdapter[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Validated arguments; with all required ones, unless another adapter is given."""
        try:
            return (by or self.arguments).validate_python(arguments)
        except ValidationError as error:
            raise broken(error.errors(include_url=False)[0], "arguments") from None

    def encoded(self, value: object, max_bytes: int) -> bytes:
        """A result as it is stored; raises InvalidTask if it is not of the declared type."""
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
        """Registers a handler; a type has one."""
        if NAME.fullmatch(handler.type) is None:
            raise ConfigError("task type", NAME_RULE)
        if handler.ack not in ACKS:
            raise ConfigError("ack", f"is one of {', '.join(ACKS)}, not {handler.ack!r}")
        priced = {"estimated_cost_usd", "max_cost_usd"} & handler.options.keys()
        if handler.ack == "before" and priced:
            rule = "has no effect with ack='before': the task is completed before it runs"
            raise ConfigError(sorted(priced)[0], rule)
        if handler.ack == "before" and handler.options.get("validation", "none") != "none":
            raise ConfigError("validation", "has no effect with ack='before'")
        known = self.handlers.get(handler.type)
        if known is not None and known.function is not handler.function:
            raise ConfigError(f"task {handler.type}", "already has a handler")
        # Resolved now, so that a wrong signature is reported at the definition and not at the first
        # run.
        handler.arguments, handler.written  # noqa: B018
        if handler.kind == "process":
            handler.import_path  # noqa: B018
        self.handlers[handler.type] = handler


def function_at(module: str, name: str) -> Callable[..., Any]:
    """Imports a function by its module and qualified name; of a TaskFunction it returns the
    function that was decorated.
    """
    found: ModuleType | Any = importlib.import_module(module)
    try:
        found = reduce(getattr, name.split("."), found)
    except AttributeError as error:
        raise ConfigError(
            f"{module}.{name}", "does not exist: keep the function's own name"
        ) from error
    handler = getattr(found, "handler", None)
    function = handler.function if isinstance(handler, Handler) else found
    if not callable(function):
        raise ConfigError(f"{module}.{name}", "is not a function")
    return function


def typed(function: Any) -> Any:
    """The function that carries the type hints of a callable: that of a partial, or `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return function.__call__


def takes_context(annotation: Any) -> bool:
    """Whether a parameter of this type takes the context."""
    return Context in (annotation, *get_args(annotation))


def provider(parameter: inspect.Parameter) -> Depends | None:
    """The `Depends` of a parameter, from its default or from `Annotated`."""
    candidates = (parameter.default, *getattr(parameter.annotation, "__metadata__", ()))
    return next((found for found in candidates if isinstance(found, Depends)), None)


def kind_of(function: Callable[..., Any], kind: Kind | None) -> Kind:
    """How a function runs: as given, else coroutines on the event loop and others in a thread."""
    if kind is not None and kind not in KINDS:
        raise ConfigError("kind", f"is one of {', '.join(KINDS)}, not {kind!r}")
    runs = typed(function)
    if inspect.isgeneratorfunction(runs) or inspect.isasyncgenfunction(runs):
        raise ConfigError("handler", "is a generator, but a task has one result: use return")
    is_async = inspect.iscoroutinefunction(runs)
    if kind == "async" and not is_async:
        raise ConfigError("kind", "async needs a coroutine function (async def)")
    if kind == "thread" and is_async:
        raise ConfigError("kind", "thread needs a plain function (def)")
    return kind or ("async" if is_async else "thread")
