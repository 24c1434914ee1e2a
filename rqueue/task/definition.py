"""A task's definition as it is stored: one JSON object, written once, opaque to all moves.

Only what differs from the default is written. The two fields nearly every task has are short,
`t` for type and `p` for payload; all others have their full names. A task of type `noop` with a
payload of 100 bytes takes 117 bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from rqueue.errors import InvalidTask
from rqueue.task.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES, decode, encode
from rqueue.task.fields import NAME, NAME_RULE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

SHORT = {"t": "type", "p": "payload"}
EMPTY = b"{}"


def plain(type: str, payload: object, max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
    """The definition of a task with a type and a payload and no options: the fast path.

    The same bytes as `TaskSpec.of(type=..., payload=...).definition()`.
    """
    if not isinstance(type, str):
        raise InvalidTask("type", NAME_RULE)
    body = encode(payload, max_bytes=max_bytes)
    if body == EMPTY:
        return head(type) + b"}"
    return b'%b,"p":%b}' % (head(type), body)


def signed(definition: bytes, by: str) -> bytes:
    """A definition of `plain` with a creator, which is a checked principal."""
    return b'%b,"created_by":"%b"}' % (definition[:-1], by.encode())


def compose(type: str, body: bytes, options: Mapping[str, object]) -> bytes:
    """The definition of a task with options, given as JSON values; `body` is its payload."""
    parts = [head(type)]
    if body != EMPTY:
        parts.append(b'"p":' + body)
    if options:
        parts.append(to_json(options)[1:-1])
    return b",".join(parts) + b"}"


def quick_parts(data: bytes) -> tuple[str, JsonValue] | None:
    """Type and payload of a definition without options; None for any other."""
    try:
        found = from_json(data)
    except ValueError:
        return None
    match found:
        case {"t": str(type), "p": payload} if len(found) == len(SHORT):
            return type, payload
        case {"t": str(type)} if len(found) == 1:
            return type, {}
        case _:
            return None


def fields_of(data: bytes) -> dict[str, JsonValue]:
    """The fields of a definition by their full names; only the JSON is checked."""
    found = decode(data, field="definition", max_depth=MAX_DEPTH + 1)
    if not isinstance(found, dict):
        raise InvalidTask("definition", "is not an object")
    return {SHORT.get(key, key): value for key, value in found.items()}


# Types are few, so each is checked once; the cache is bounded against generated names.
@lru_cache(maxsize=4096)
def head(type: str) -> bytes:
    """The beginning of a definition, if the type is a name."""
    if NAME.fullmatch(type) is None:
        raise InvalidTask("type", NAME_RULE)
    return b'{"t":"%b"' % type.encode()
