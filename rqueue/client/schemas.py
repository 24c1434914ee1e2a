"""JSON Schemas at the door: looked at where the package is installed that knows them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, NoReturn

from rqueue.errors import InvalidTask


@cache
def is_installed() -> bool:
    """Whether schemas can be looked at here."""
    return find_spec("jsonschema_rs") is not None


def check_schema(schema: Any, field: str = "validation_schema") -> None:
    """Raises InvalidTask for what is no schema, or refers to what does not stand in it."""
    if not is_installed():
        return
    import jsonschema_rs  # noqa: PLC0415  # an extra, and only for tasks with a schema

    try:
        jsonschema_rs.validator_for(schema, retriever=refuse)
    except ValueError as error:
        said = str(error).splitlines()
        raise InvalidTask(field, f"is no JSON Schema: {said[0] if said else error!r}") from None


def refuse(uri: str) -> NoReturn:
    """Nothing is fetched: who names an address must not choose what this machine asks for."""
    raise ValueError(f"{uri} is not fetched")
