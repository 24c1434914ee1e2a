"""JSON Schemas. The only importer of jsonschema_rs, which is an extra.

It imports nothing else, because checker processes must start quickly.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, NoReturn


@cache
def is_installed() -> bool:
    """Whether the package that checks schemas is installed."""
    return find_spec("jsonschema_rs") is not None


def schema_validator(schema: Any) -> Any:
    """The `jsonschema_rs` validator of a schema. Raises ValueError if the schema is invalid or
    refers to another document.
    """
    import jsonschema_rs  # noqa: PLC0415  # an extra, and only for tasks with a schema

    return jsonschema_rs.validator_for(schema, retriever=refuse)


def first_line(error: Exception) -> str:
    """The first line of an error, without the schema that follows."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def refuse(uri: str) -> NoReturn:
    """Fetches nothing: a schema must not choose what this machine requests."""
    raise ValueError(f"{uri} is not fetched")
