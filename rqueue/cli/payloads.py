"""Values and documents from the command line: JSON words, files, standard input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from rqueue.errors import InvalidTask
from rqueue.model.codec import MAX_DEPTH, decode
from rqueue.model.forms.document import MAX_DOCUMENT_DEPTH, NO_MAPPING, parse_yaml

if TYPE_CHECKING:
    from pydantic import JsonValue

STDIN = "-"
# At the start of a line these always part two documents, inside texts as well.
MARKER = re.compile(rb"^---(?=\s|$)", re.MULTILINE)


def from_argument(text: str, name: str) -> JsonValue:
    """The value of a JSON word, or of standard input for `-`."""
    # A word of bytes that are no text comes with surrogates for them: refused as what it is.
    word = text.encode(errors="surrogateescape")
    data = sys.stdin.buffer.read() if text == STDIN else word
    try:
        return decode(data, field=name, max_depth=MAX_DEPTH)
    except InvalidTask as error:
        raise click.UsageError(f"{error}; text stands in double quotes: '\"text\"'") from error


def documents(data: bytes) -> list[Mapping[str, Any]]:
    """The documents in a file: one or several of YAML, a list, JSON, or a line of JSON each."""
    found: list[Mapping[str, Any]] = []
    for value in values(data):
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, Mapping):
                raise InvalidTask(f"document {len(found) + 1}", NO_MAPPING)
            found.append(one)
    return found


def values(data: bytes) -> Iterator[object]:
    """The values that stand behind each other in a text."""
    if data.lstrip()[:1] in (b"{", b"["):
        yield from json_values(data)
        return
    before = 0
    for part in MARKER.split(data):
        value = parse_yaml(part, before=before)
        before += part.count(b"\n")
        if value is not None:
            yield value


def json_values(data: bytes) -> Iterator[object]:
    """One JSON value, or one on each line."""
    try:
        yield decode(data, field="document", max_depth=MAX_DOCUMENT_DEPTH)
    except InvalidTask as error:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) == 1 or not is_json(lines[0]):
            raise placed(error) from error
        for at, line in enumerate(lines, 1):
            yield decode(line, field=f"line {at}", max_depth=MAX_DOCUMENT_DEPTH)


def is_json(line: bytes) -> bool:
    """Whether a line is a value by itself: a document over many lines has none such."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def placed(error: InvalidTask) -> InvalidTask:
    """The error with the place where the text breaks off, if that is known."""
    cause = error.__cause__
    if not isinstance(cause, json.JSONDecodeError):
        return error
    return InvalidTask(error.field, f"{error.rule}: see line {cause.lineno}, column {cause.colno}")
