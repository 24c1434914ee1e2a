"""Validators of outputs: their kinds, and the settings that each needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator

from rqueue.errors import InvalidTask
from rqueue.task.fields import YEAR_SEC, refusal

Validator = Literal["json-schema", "test-pass", "llm-judge", "regex", "decision-report"]
VALIDATORS: tuple[Validator, ...] = get_args(Validator)
NONE: Literal["none"] = "none"

MAX_PATTERN = 1000
MAX_WORDS, MAX_WORD = 64, 4096


def validation(value: object) -> object:
    """One kind, or several as a list; a list of one becomes that kind, an empty list none."""
    if value == NONE or value in VALIDATORS:
        return value
    if not isinstance(value, list | tuple):
        raise refusal(f"is none, one of {', '.join(VALIDATORS)}, or a list of them")
    for kind in value:
        if kind not in VALIDATORS:
            raise refusal(f"names {kind!r}, which is none of {', '.join(VALIDATORS)}")
    kinds = tuple(dict.fromkeys(value))
    return kinds if len(kinds) > 1 else kinds[0] if kinds else NONE


Validation = Annotated[
    Validator | Literal["none"] | tuple[Validator, ...], BeforeValidator(validation)
]


class Check(NamedTuple):
    """One validator of a task with its setting: a pattern, a schema, a command, criteria."""

    kind: Validator
    value: Any = None


class Command(NamedTuple):
    """What `test-pass` runs: words without a shell, in a directory, with a timeout."""

    words: tuple[str, ...]
    cwd: str = "."
    timeout_sec: float | None = None


def checks_of(validation: Validation, schema: Any) -> tuple[Check, ...]:
    """The validators of a task in order; raises InvalidTask for a wrong setting. With one kind,
    `validation_schema` is its setting; with several, a mapping from kind to setting.
    """
    if validation == NONE:
        return ()
    if isinstance(validation, str):
        return (checked(Check(validation, schema), "validation_schema"),)
    settings = {} if schema is None else schema
    if not isinstance(settings, Mapping):
        raise InvalidTask("validation_schema", f"maps each of {', '.join(validation)} to its own")
    for kind in settings:
        if kind not in validation:
            raise InvalidTask(f"validation_schema.{kind}", "is not named in `validation`")
    return tuple(
        checked(Check(kind, settings.get(kind)), f"validation_schema.{kind}") for kind in validation
    )


def checked(check: Check, where: str) -> Check:
    """The check, if its setting fits its kind."""
    match check:
        case Check("regex", pattern):
            compiled(pattern, where)
        case Check("json-schema", value):
            # None is document B's "if applicable": any JSON passes.
            if value is not None and not isinstance(value, Mapping | bool):
                raise InvalidTask(where, "is a JSON Schema: an object, true or false")
        case Check("test-pass", value):
            command_of(value, where)
        case Check("decision-report", value):
            if value is not None:
                raise InvalidTask(where, "is not for decision-report, which has no settings")
        case _:
            # A judge's setting is not checked.
            pass
    return check


def compiled(pattern: object, where: str) -> re.Pattern[str]:
    """A pattern of Python's `re`, which must match the whole text."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN:
        raise InvalidTask(where, f"is a pattern of 1 to {MAX_PATTERN} characters")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidTask(where, f"is not a pattern of Python's re: {error}") from None


def command_of(value: object, where: str = "validation_schema") -> Command:
    """A command of a task: its words, or an object with `command`, `cwd` and `timeout_sec`."""
    settings = {"command": value} if isinstance(value, list | tuple) else value
    if not isinstance(settings, Mapping) or not settings.keys() <= {
        "command",
        "cwd",
        "timeout_sec",
    }:
        raise InvalidTask(where, "is a list of words, or has command, cwd and timeout_sec")
    words, cwd, limit = (
        settings.get("command"),
        settings.get("cwd", "."),
        settings.get("timeout_sec"),
    )
    if not isinstance(words, list | tuple) or not 1 <= len(words) <= MAX_WORDS:
        raise InvalidTask(where, f"has a command of 1 to {MAX_WORDS} words")
    if not all(isinstance(word, str) and is_word(word) for word in (*words, cwd)):
        raise InvalidTask(where, f"has words and a cwd of 1 to {MAX_WORD} characters, none a NUL")
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= YEAR_SEC
    ):
        raise InvalidTask(where, "has a timeout_sec above 0")
    return Command(tuple(words), cwd, limit)


def is_word(text: str) -> bool:
    """Whether it can be an argument of a program."""
    return 1 <= len(text) <= MAX_WORD and "\0" not in text
