"""The arguments of a move, read from its header: KEYS and ARGV."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rqueue.store.assemble import EACH, header
from tools.keys import pattern_of, patterns
from tools.lua.values import NOTHING, ROOT, SOMETHING, Cell, Table, Text, Value, Values

NUMBERED = re.compile(r"(\d+) (\w+)\s*(.*)")
# How a header declares that an argument is the name of a key, and of which patterns.
GIVEN = re.compile(r"after the root: (.*)", re.DOTALL)
# `lane:<n>` or `dead`, but not the words of a sentence, as in `of all lanes`.
NAME = re.compile(r"(?<!of )(?<!all )\b[a-z]+(?::<)?")


class UnknownKeys(Exception):
    """Keys or commands that could not be determined, each with its file and line."""


def arguments(text: str, file: str) -> dict[str, Value]:
    """The globals KEYS and ARGV of a move."""
    sections, _, _ = header(text)
    each = EACH.search(text)
    rows = given(each[0].replace("\n--", "")) if each else NOTHING
    keys = [key_named(name, file) for name, _ in numbered(sections.get("KEYS", ""))]
    given_first = [argument(name, rest) for name, rest in numbered(sections.get("ARGV", ""))]
    return {"KEYS": table(keys, SOMETHING), "ARGV": table(given_first, rows or SOMETHING)}


def table(named: list[Values], rows: Values) -> Table:
    """The named arguments, followed by the rows."""
    fields = {f"#{at}": Cell(values) for at, values in enumerate(named, 1)}
    return Table(len(named), arguments=True, fields=fields, behind=Cell(rows))


def numbered(section: str) -> Iterator[tuple[str, str]]:
    """Name and explanation of each line, with its continuation lines."""
    found: list[tuple[str, str]] = []
    for line in section.splitlines():
        start = NUMBERED.match(line)
        if start:
            found.append((start[2], start[3]))
        elif found:
            name, rest = found[-1]
            found[-1] = (name, f"{rest} {line}")
    return iter(found)


def key_named(name: str, file: str) -> Values:
    """The key of this name: a method of Keys without parameters."""
    known = next((one for one in patterns() if one.name == name and "<" not in one.key), None)
    if known is None:
        raise UnknownKeys(f"{file}: KEYS names {name}, which is not in rqueue/store/keys.py")
    return frozenset({Text(rooted=True, text=known.short, open=False)})


def argument(name: str, explanation: str) -> Values:
    """The values of an argument: the root, names of keys, or anything."""
    return frozenset({ROOT}) if name == "root" else given(explanation) or SOMETHING


def given(explanation: str) -> Values:
    """The names of keys that an argument may have, if the header declares them."""
    found = GIVEN.search(explanation)
    words = NAME.findall(found[1]) if found else []
    texts = (Text(rooted=False, text=word.rstrip("<"), open=word[-1] == "<") for word in words)
    return frozenset(one for one in texts if pattern_of(one.text, begins=one.open))
