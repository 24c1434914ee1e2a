"""JSON encoding and decoding of payloads and results.

Most values take the fast path: one check, then the encoder written in Rust. For other values each
item is checked, which either converts it to plain JSON (subclasses of str, int, dict, ...) or
raises InvalidTask with its path and the broken rule. Decoding is as strict as encoding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from rqueue.errors import InvalidTask

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_PAYLOAD_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_INT = 2**63 - 1
BACKSLASH = ord("\\")

STRINGS = frozenset({str})
WORDS = frozenset({str, bool, type(None)})


def encode(value: object, *, field: str = "payload", max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
    """The value as compact JSON in UTF-8, keys in order; InvalidTask with the path
    where it is not JSON.
    """
    data = quick(value)
    if data is None:
        data = to_json(exact(value, field, MAX_DEPTH))
    if len(data) > max_bytes:
        raise InvalidTask(field, f"has {len(data)} bytes of JSON; {max_bytes} are allowed")
    return data


def decode(
    data: bytes,
    *,
    field: str = "payload",
    max_bytes: int | None = None,
    max_depth: int = MAX_DEPTH,
) -> JsonValue:
    """The value of untrusted bytes, or InvalidTask. What `encode` wrote takes the fast path."""
    if max_bytes is not None and len(data) > max_bytes:
        raise InvalidTask(field, f"has {len(data)} bytes; {max_bytes} are allowed")
    try:
        value: JsonValue = from_json(data, allow_inf_nan=False)
    except ValueError:
        return decode_exactly(data, field, max_depth)
    # Bytes that encode to themselves have no duplicate keys and lost nothing in decoding.
    if quick(value, max_depth) == data:
        return value
    return decode_exactly(data, field, max_depth)


def content_key(*parts: object) -> str:
    """The SHA-256, in hex, of the parts as JSON with sorted keys: equal content, equal key."""
    text = json.dumps(
        exact(list(parts), "content", MAX_DEPTH + 2),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return sha256(text.encode()).hexdigest()


def quick(value: object, depth: int = MAX_DEPTH) -> bytes | None:
    """The value's JSON; None where only the exact check can decide."""
    if not is_plain(value, depth):
        return None
    try:
        data = to_json(value)
    except ValueError:
        return None
    # Searching one byte is much cheaper, and most texts have no escapes.
    return None if BACKSLASH in data and b"\\u0000" in data else data


def is_plain(value: object, depth: int) -> bool:
    """Whether it consists of exact JSON types in range, at most `depth` deep.

    Text is not checked here: the encoder refuses surrogates, and NUL shows in its output.
    """
    items: Iterable[object]
    if type(value) is dict:
        if not STRINGS.issuperset(map(type, value)):
            return False
        items = value.values()
    elif type(value) is list or type(value) is tuple:
        items = value
    else:
        return type(value) in WORDS or is_in_range(value)
    if depth <= 0:
        return False
    for item in items:
        if type(item) in WORDS or (type(item) is int and -MAX_INT <= item <= MAX_INT):
            continue
        if not is_plain(item, depth - 1):
            return False
    return True


def is_in_range(value: object) -> bool:
    """Whether it is exactly an int or a float that JSON and 64 bits can hold."""
    if type(value) is int:
        return -MAX_INT <= value <= MAX_INT
    return type(value) is float and isfinite(value)


def exact(value: object, path: str, depth: int) -> JsonValue:
    """The value as plain JSON types, or InvalidTask for the first place that is not."""
    match value:
        case None | bool():
            return value
        case str():
            return text(value, path)
        case int():
            return integer(value, path)
        case float():
            return number(value, path)
        case dict() | list() | tuple() if depth <= 0:
            raise InvalidTask(path, "is nested too deeply")
        case dict():
            return {
                key_of(key, path): exact(item, item_path(path, key), depth - 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [exact(item, f"{path}[{at}]", depth - 1) for at, item in enumerate(value)]
        case _:
            raise InvalidTask(path, f"is a {type(value).__name__}, which JSON does not have")


def item_path(path: str, key: str) -> str:
    """The path of an object's item, short and printable whatever the key is."""
    return f"{path}.{key}" if key.isascii() and key.isidentifier() else f"{path}[{key[:64]!r}]"


def key_of(key: object, path: str) -> str:
    """The key of an object, which is text."""
    if not isinstance(key, str):
        raise InvalidTask(path, f"has the key {key!r}; keys are text")
    return text(key, item_path(path, key))


def text(value: str, path: str) -> str:
    """The text as a plain str, if every store can hold it."""
    if "\0" in value:
        raise InvalidTask(path, "contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidTask(path, "contains a lone surrogate, which is no character") from None
    return str.__str__(value)


def integer(value: int, path: str) -> int:
    """The number as a plain int, if it fits 64 bits."""
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise InvalidTask(path, "is an integer beyond 64 bits; send it as text")
    return int(value)


def number(value: float, path: str) -> float:
    """The number as a plain float, if it is one."""
    if not isfinite(value):
        raise InvalidTask(path, "is NaN or infinite, which JSON does not have")
    return float(value)


def decode_exactly(data: bytes, field: str, max_depth: int) -> JsonValue:
    """`decode` for unusual bytes: each rule is checked and named."""

    def pairs(found: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        whole = dict(found)
        if len(whole) != len(found):
            raise InvalidTask(field, "has an object with the same key twice")
        return whole

    def constant(word: str) -> JsonValue:
        raise InvalidTask(field, f"contains {word}, which JSON does not have")

    def digits(word: str) -> int:
        # Its length is checked first: converting 300,000 digits takes seconds.
        return integer(int(word) if len(word) <= len(str(-MAX_INT)) else MAX_INT + 1, field)

    try:
        value: object = json.loads(
            data.decode(), object_pairs_hook=pairs, parse_constant=constant, parse_int=digits
        )
    except UnicodeDecodeError as error:
        raise InvalidTask(field, "is not UTF-8") from error
    except RecursionError as error:
        raise InvalidTask(field, "is nested too deeply") from error
    except ValueError as error:
        raise InvalidTask(field, "is not JSON") from error
    return exact(value, field, max_depth)
