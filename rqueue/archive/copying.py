"""Values as COPY reads them in its text form, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

NULL = r"\N"
# What COPY would take for its own, and NUL, which no text of PostgreSQL holds.
ESCAPES = str.maketrans({"\0": "\ufffd", "\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
# NUL as JSON writes it. A backslash before it would make it the text of six characters, which is
# ordinary in code.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
MAX_ERROR = 8_192
MAX_NAME = 256
# What a bigint holds, and an integer; and what a bigint holds the sum of thousands of.
BIGINT_DIGITS, INT_DIGITS, PART_DIGITS = 18, 9, 15


def json_of(data: bytes) -> Any:
    """What JSON stands for, None where it is none."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:
        return None


def has_nul(data: bytes) -> bool:
    """Whether JSON has a NUL in it, and so is none that PostgreSQL could hold."""
    return b"\\u0000" in data and NUL.search(data) is not None


def number_in(fields: Mapping[str, str], name: str, digits: int = BIGINT_DIGITS) -> str:
    """A count as text, 0 where it is not there or none."""
    found = fields.get(name, "0")
    return found if found.isdecimal() and found.isascii() and len(found) <= digits else "0"


def escaped(text: str) -> str:
    """A text as COPY reads it."""
    return text.translate(ESCAPES)


def quoted(text: str) -> str:
    """A text as an element of an array."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def hexed(data: bytes) -> str:
    """Bytes as COPY reads them."""
    return r"\\x" + data.hex()
