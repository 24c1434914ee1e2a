"""Where a child process finds a handler: by the module and the name of its function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError
from rqueue.registry import Handler

if TYPE_CHECKING:
    from types import ModuleType


def function_at(module: str, name: str) -> Callable[..., Any]:
    """The function of a name; what `@queue.task` has made of it is looked through."""
    found: ModuleType | Any = importlib.import_module(module)
    try:
        found = reduce(getattr, name.split("."), found)
    except AttributeError as error:
        raise ConfigError(
            f"{module}.{name}", "is not there: give the function its own name"
        ) from error
    handler = getattr(found, "handler", None)
    function = handler.function if isinstance(handler, Handler) else found
    if not callable(function):
        raise ConfigError(f"{module}.{name}", "is not a function")
    return function


def check(handler: Handler) -> None:
    """Raises ConfigError where a child could not find the handler."""
    module, name = handler.place
    if module == "__main__":
        rule = (
            "is in the main module, which a process of its own cannot import: put it in another, "
            "and run `rqueue worker MODULE:QUEUE`"
        )
        raise ConfigError(f"task {handler.type}", rule)
    if function_at(module, name) is not handler.function:
        rule = f"a process of its own would find another function at {module}.{name}"
        raise ConfigError(f"task {handler.type}", rule)
