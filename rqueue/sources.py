"""Where settings are written beside the code: environment variables and rqueue.yaml; and what is
said of one that is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

FILE = "rqueue.yaml"
PREFIX = "RQUEUE_"
# The usual name of this variable wins over our own pattern.
VARIABLES = {"url": "RQUEUE_REDIS_URL"}
WHERE = ("url", "embedded")
# Settings with parts of their own.
IN_JSON = frozenset(
    {"retry", "breakers", "limits", "turns", "validation", "test_commands", "sinks"}
    | {"notice_destinations", "retention"}
)


def merged(sources: list[dict[str, object]]) -> dict[str, object]:
    """The first source that has a setting decides it; url and embedded are one decision."""
    found: dict[str, object] = {}
    for source in sources:
        decided = any(found.get(field) for field in WHERE)
        for field, value in source.items():
            if field not in found and not (decided and field in WHERE):
                found[field] = value
    return found


def from_environment(model: type[BaseModel]) -> dict[str, object]:
    """What RQUEUE_* variables say; an empty one says nothing."""
    found: dict[str, object] = {}
    for field in model.model_fields:
        variable = variable_of(field)
        text = os.environ.get(variable, "")
        if not text or field == "name":
            continue
        found[field] = from_json(variable, text) if field in IN_JSON else text
    return found


def variable_of(field: str) -> str:
    """The environment variable of a setting."""
    return VARIABLES.get(field, f"{PREFIX}{field.upper()}")


def from_json(variable: str, text: str) -> object:
    """A variable's value that has parts of its own."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(variable, "is not JSON") from error


def from_file(model: type[BaseModel], name: str) -> list[dict[str, object]]:
    """What rqueue.yaml says of this queue, and then of all queues."""
    path = Path(FILE)
    if not path.is_file():
        return []
    try:
        content = yaml.safe_load(path.read_text("utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(FILE, "cannot be read as YAML") from error
    everything = mapping(content, FILE)
    queues = mapping(everything.pop("queues", None) or {}, f"{FILE}: queues")
    own = mapping(queues.get(name) or {}, f"{FILE}: queues.{name}")
    # Sections of other rooms are mappings that no setting is named after.
    common = {
        field: value
        for field, value in everything.items()
        if field in model.model_fields or not isinstance(value, Mapping)
    }
    return [own, common]


def mapping(value: object, where: str) -> dict[str, object]:
    """A part of the file that must have names and values."""
    if not isinstance(value, Mapping):
        raise ConfigError(where, "is a mapping of names to values")
    return {str(key): item for key, item in value.items() if item is not None}


def broken(error: ValidationError) -> ConfigError:
    """The first thing pydantic found wrong, in our words."""
    found = error.errors(include_url=False, include_input=False)[0]
    setting = ".".join(str(step) for step in found["loc"]) or "settings"
    match found["type"]:
        case "missing":
            return ConfigError(setting, "is required")
        case "extra_forbidden":
            return ConfigError(setting, "is not a known setting")
        case _:
            rule = found["msg"].removeprefix("Value error, ")
            return ConfigError(setting, rule[:1].lower() + rule[1:])
