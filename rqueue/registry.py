"""The handlers of a queue: what runs a type of task, with its arguments and result as types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NotRequired, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from rqueue.context import Context
from rqueue.errors import ConfigError, InvalidTask
from rqueue.hooks import Depends
from rqueue.model.checked import NAME, NAME_RULE, broken
from rqueue.model.codec import encode

Kind = Literal["async", "thread"]
Ack = Literal["after", "before"]

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
            hints = get_type_hints(self.function, include_extras=True)
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
            if parameter.annotation is Context:
                return name
        return None

    @cached_property
    def dependencies(self) -> dict[str, Depends]:
        """The parameters that are provided, not sent."""
        found = self.signature.parameters.items()
        return {name: p.default for name, p in found if isinstance(p.default, Depends)}

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
    def arguments(self) -> TypeAdapter[dict[str, Any]]:
        """The sent parameters as one typed mapping; what has a default may be missing."""
        fields = {
            name: parameter.annotation
            if parameter.default is inspect.Parameter.empty
            else NotRequired[parameter.annotation]
            for name, parameter in self.sent.parameters.items()
        }
        # The functional form: the names are known only now.
        make: Any = TypedDict
        shape: Any = with_config(ConfigDict(extra="forbid"))(make(self.type, fields))
        return TypeAdapter(shape)

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """What the function returns."""
        return TypeAdapter(self.signature.return_annotation)

    def payload_of(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call as a payload, or InvalidTask where they do not fit."""
        try:
            bound = self.sent.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidTask("arguments", f"do not fit {self.type}: {error}") from None
        checked = self.checked(bound.arguments)
        found: dict[str, Any] = self.arguments.dump_python(checked, mode="json")
        return found

    def arguments_of(self, payload: object) -> dict[str, Any]:
        """The arguments that a payload means, or InvalidTask."""
        names = list(self.sent.parameters)
        if not isinstance(payload, Mapping) and len(names) == 1:
            payload = {names[0]: payload}
        return self.checked(payload)

    def checked(self, arguments: object) -> dict[str, Any]:
        """Arguments as their types say."""
        try:
            return self.arguments.validate_python(arguments)
        except ValidationError as error:
            raise broken(error.errors(include_url=False)[0], "arguments") from None

    def encoded(self, value: object, max_bytes: int) -> bytes:
        """A result as it is stored; raises InvalidTask where it is not what the type says."""
        if value is None and self.signature.return_annotation in (None, type(None), Any):
            return b""
        try:
            found = self.result.dump_python(self.result.validate_python(value), mode="json")
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
        known = self.handlers.get(handler.type)
        if known is not None and known.function is not handler.function:
            raise ConfigError(f"task {handler.type}", "has a handler already")
        # Resolved now: a wrong signature is told where it stands, not when it first runs.
        handler.arguments, handler.result  # noqa: B018
        self.handlers[handler.type] = handler


def kind_of(function: Callable[..., Any], kind: Kind | None) -> Kind:
    """How a function runs: coroutines on the loop, others in a thread, or as it was said."""
    is_async = inspect.iscoroutinefunction(function)
    if kind == "async" and not is_async:
        raise ConfigError("kind", "async needs a coroutine function (async def)")
    return kind or ("async" if is_async else "thread")
