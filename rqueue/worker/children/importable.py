"""Handlers of kind "process" are imported by a child process, by module and qualified name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError
from rqueue.worker.handler import Handler

if TYPE_CHECKING:
    from types import ModuleType


def function_at(module: str, name: str) -> Callable[..., Any]:
    """Imports a function; of a TaskFunction it returns the function that was decorated."""
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


def check(handler: Handler) -> None:
    """Raises ConfigError if a child could not import the handler."""
    module, name = handler.import_path
    if module == "__main__":
        rule = (
            "is in the main module, which a child process cannot import: move it to another module "
            "and run `rqueue worker MODULE:QUEUE`"
        )
        raise ConfigError(f"task {handler.type}", rule)
    if function_at(module, name) is not handler.function:
        rule = f"a child process would import another function from {module}.{name}"
        raise ConfigError(f"task {handler.type}", rule)
