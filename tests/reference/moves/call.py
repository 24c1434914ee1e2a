"""The arguments of a move's call by the names of its header, and its reply in the server's
format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqueue.store.library import Argument, Move

# A move's reply: text, numbers, bytes, and lists of them.
Reply = list[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call by name, and its rows by column."""

    args: dict[str, Argument]
    rows: list[dict[str, Argument]]

    def text(self, name: str) -> str:
        """An argument as text."""
        return text(self.args[name])

    def number(self, name: str) -> int:
        """An argument as a whole number."""
        return int(self.args[name])

    def json(self, name: str) -> Any:
        """An argument that is JSON."""
        return json.loads(self.text(name))


def parse_call(move: Move, words: Sequence[Argument]) -> Call:
    """The arguments of a call (see `Move.pack`) by the names of the move's header."""
    given = words[1 + len(move.keys) :]
    width, flat = len(move.each), given[len(move.args) :]
    rows = [
        dict(zip(move.each, flat[at : at + width], strict=True))
        for at in range(0, len(flat), width or 1)
    ]
    return Call(dict(zip(move.args, given, strict=False)), rows)


def text(word: Argument) -> str:
    """An argument as text."""
    return word.decode() if isinstance(word, bytes) else str(word)


def raw(word: Argument) -> bytes:
    """An argument as the server stores it."""
    return word if isinstance(word, bytes) else str(word).encode()


def encoded(reply: Any) -> Any:
    """A reply as the driver returns it: text as bytes, numbers unchanged."""
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, list | tuple):
        return [encoded(item) for item in reply]
    return reply
