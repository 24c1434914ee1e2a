"""The key patterns of a queue, as docs/keys.md names them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

from rqueue.store.keys import Keys

TYPES = frozenset({"string", "hash", "list", "set", "zset", "stream"})
QUEUE = Keys("rq", "queue")
# Keys of earlier releases that are still deleted, with the pattern that replaced each.
FORMER = {"turned:": "turned"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One method of Keys: the key with its parameters in their places, its type and its content."""

    name: str
    key: str
    kind: str
    holds: str

    @property
    def short(self) -> str:
        """The key after the root."""
        return self.key.removeprefix(QUEUE.root)

    @property
    def glob(self) -> str:
        """The key as a glob of ACL rules."""
        head, hole, _ = self.key.partition("<")
        return f"{head}*" if hole else head

    def matches(self, text: str, *, begins: bool = False) -> bool:
        """Whether a key has this pattern, by its text after the root; `begins`: more may follow."""
        head, hole, _ = self.short.partition("<")
        return text.startswith(head) if hole else text == head and not begins


@cache
def patterns() -> tuple[Pattern, ...]:
    """All patterns, in the order of the methods."""
    cls: Any = Keys
    methods = {name: one for part in cls.__mro__ for name, one in vars(part).items()}
    found = []
    for name, method in methods.items():
        kind, _, meaning = (inspect.getdoc(method) or "").partition(":")
        word = kind.split(" ")[0].rstrip(",")
        if word in TYPES:
            found.append(Pattern(name, key(method), word, " ".join(meaning.split())))
    return tuple(found)


def key(method: Any) -> str:
    """The key with the names of the parameters in their places."""
    words = list(inspect.signature(method).parameters)[1:]
    return str(method(QUEUE, *(f"<{word}>" for word in words)))


def pattern_of(text: str, *, begins: bool = False) -> Pattern | None:
    """The pattern of a key, by its text after the root."""
    for head, name in FORMER.items():
        if text.startswith(head):
            text, begins = name, False
    return next((one for one in patterns() if one.matches(text, begins=begins)), None)
