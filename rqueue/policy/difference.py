"""How one JSON value became another: a JSON Patch (RFC 6902) that also says what was there.

Written by hand: what libraries offer more (moves, copies, applying) nobody needs for an audit, and
none of them keeps the old value, without which a change cannot be judged or undone. `was` is a
member that RFC 6902 does not know and lets pass.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import JsonValue

# A value of more than so many bytes is told by its hash where a difference is too long.
SHOWN = 200
NONE = object()

Step = dict[str, Any]


def difference(before: JsonValue, after: JsonValue) -> list[Step]:
    """The steps from one value to the other; none where they are the same."""
    return steps(before, after, "")


def bounded(found: list[Step], most: int) -> list[Step]:
    """The steps in at most so many bytes of JSON: long values are told by their hash, and where
    that is not enough, the first steps and how many there are more.
    """
    if size(found) <= most:
        return found
    short = [{name: shortened(name, value) for name, value in step.items()} for step in found]
    while short and size([*short, {"more": len(found)}]) > most:
        short = short[: len(short) * 3 // 4]
    left = len(found) - len(short)
    return [*short, {"more": left}] if left else short


def steps(before: Any, after: Any, path: str) -> list[Step]:
    """The steps below a place."""
    if before is NONE:
        return [{"op": "add", "path": path, "value": after}]
    if after is NONE:
        return [{"op": "remove", "path": path, "was": before}]
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        pairs = [(escaped(name), before.get(name, NONE), after.get(name, NONE)) for name in names]
    elif isinstance(before, list) and isinstance(after, list):
        both = enumerate(zip_longest(before, after, fillvalue=NONE))
        pairs = [(str(at), old, new) for at, (old, new) in both]
        # From the end on: what is removed moves the place of all behind it.
        pairs = pairs[: len(after)] + pairs[len(after) :][::-1]
    elif same(before, after):
        return []
    else:
        return [{"op": "replace", "path": path, "value": after, "was": before}]
    return [step for name, old, new in pairs for step in steps(old, new, f"{path}/{name}")]


def same(before: Any, after: Any) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true are three."""
    return type(before) is type(after) and before == after


def escaped(name: str) -> str:
    """A name in a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def shortened(name: str, value: Any) -> Any:
    """A value, or its hash where it is long; a path, or its start."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text.encode(errors="replace")) <= SHOWN:
        return value
    if name == "path":
        return f"{value[: SHOWN // 4]}…"
    return {"sha256": sha256(text.encode(errors="replace")).hexdigest(), "bytes": len(text)}


def size(found: list[Step]) -> int:
    """How many bytes the steps take as they are kept."""
    return len(json.dumps(found, separators=(",", ":")))
