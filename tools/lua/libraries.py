"""The results of the functions of Lua and Redis, as far as keys depend on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.lua.values import (
    ANY_KEY,
    NOTHING,
    SOMETHING,
    Closure,
    Several,
    Table,
    Text,
    is_late,
    literal,
    literals,
    together,
)

if TYPE_CHECKING:
    from tools.lua.interpreter import Interpreter
    from tools.lua.tree import Call

LIBRARIES = frozenset({
    "redis", "cjson", "string", "math", "table", "tonumber", "tostring", "type", "ipairs", "pairs",
    "next", "unpack", "error", "pcall", "select",
})  # fmt: skip


def opaque(run: Interpreter, node: Call, words: Several) -> Several:
    """Any other function: its result is unknown, and it may call its arguments."""
    for one in words.all():
        if isinstance(one, Closure):
            run.enter(one, node, Several([], SOMETHING))
    return Several([], SOMETHING)


def send(run: Interpreter, node: Call, words: Several) -> Several:
    """redis.call and redis.pcall: records the command; the result of SCAN has keys."""
    run.record(node, words)
    names = literals(words.at(0)) or []
    return Several([], frozenset({ANY_KEY}) if "SCAN" in names else SOMETHING)


def unpack(run: Interpreter, node: Call, words: Several) -> Several:
    """The items of a list: those of its constructor one by one, then the others together."""
    found = []
    for one in words.at(0):
        if isinstance(one, Table):
            front = [run.get(one, [f"#{at}"]) for at in range(1, one.items + 1)]
            late = [name for name in run.names(one) if is_late(name, one)]
            found.append(Several(front, run.read(one.behind) | run.get(one, late)))
        else:
            found.append(Several([], frozenset({one})))
    return together(found)


def pairs(run: Interpreter, node: Call, words: Several) -> Several:
    """The keys and the values of a table."""
    keys, values = NOTHING, NOTHING
    for one in words.at(0):
        if isinstance(one, Table):
            keys |= run.read(one.named) | frozenset(map(literal, run.names(one)))
            keys |= SOMETHING if run.read(one.behind) else NOTHING
            values |= run.contents(one)
        else:
            keys |= SOMETHING
            values |= {one}
    return Several([keys, values])


def ipairs(run: Interpreter, node: Call, words: Several) -> Several:
    """ipairs: unknown positions and the values of a table."""
    return Several([SOMETHING, pairs(run, node, words).at(1)])


def removed(run: Interpreter, node: Call, words: Several) -> Several:
    """table.remove: any value of the table."""
    return Several([pairs(run, node, words).at(1)])


def inserted(run: Interpreter, node: Call, words: Several) -> Several:
    """table.insert: adds a value behind the items."""
    for one in words.at(0):
        if isinstance(one, Table):
            run.add(one.behind, words.rest.union(*words.front[1:]))
    return Several([])


def arguments_of(run: Interpreter, node: Call, words: Several) -> Several:
    """tostring and select: the arguments."""
    return Several([], words.all())


def formatted(run: Interpreter, node: Call, words: Several) -> Several:
    """string.format: the text before the first placeholder."""
    found = set()
    for one in words.at(0):
        known = isinstance(one, Text) and not one.open
        text = one.text.partition("%")[0] if known and isinstance(one, Text) else ""
        found.add(Text(rooted=False, text=text, open=True))
    return Several([frozenset(found)])


def pcall(run: Interpreter, node: Call, words: Several) -> Several:
    """pcall: whether it succeeded, then the results of the function."""
    rest = Several(words.front[1:], words.rest)
    found = together([run.apply(one, node, rest) for one in words.at(0)])
    return Several([SOMETHING, *found.front], found.rest)


HANDLERS: dict[str, Callable[[Interpreter, Call, Several], Several]] = {
    "redis.call": send,
    "redis.pcall": send,
    "unpack": unpack,
    "pairs": pairs,
    "ipairs": ipairs,
    "next": pairs,
    "table.remove": removed,
    "table.insert": inserted,
    "tostring": arguments_of,
    "select": arguments_of,
    "string.format": formatted,
    "pcall": pcall,
}
