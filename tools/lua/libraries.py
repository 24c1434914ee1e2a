"""What the functions of Lua and of Redis give, as far as keys come of it."""

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
    """A function of which nothing needs to be known; it may call those that it is handed."""
    for one in words.all():
        if isinstance(one, Closure):
            run.enter(one, node, Several([], SOMETHING))
    return Several([], SOMETHING)


def send(run: Interpreter, node: Call, words: Several) -> Several:
    """redis.call and redis.pcall: a command is sent; SCAN gives names of keys."""
    run.record(node, words)
    names = literals(words.at(0)) or []
    return Several([], frozenset({ANY_KEY}) if "SCAN" in names else SOMETHING)


def unpack(run: Interpreter, node: Call, words: Several) -> Several:
    """What stands in a list: one by one what its constructor has, then the others."""
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
    """Keys of a table, and what stands under them."""
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


def in_order(run: Interpreter, node: Call, words: Several) -> Several:
    """Places, and what stands in them."""
    return Several([SOMETHING, pairs(run, node, words).at(1)])


def taken(run: Interpreter, node: Call, words: Several) -> Several:
    """table.remove: any of what stands in the table."""
    return Several([pairs(run, node, words).at(1)])


def inserted(run: Interpreter, node: Call, words: Several) -> Several:
    """table.insert: it stands behind what is there."""
    for one in words.at(0):
        if isinstance(one, Table):
            run.add(one.behind, words.rest.union(*words.front[1:]))
    return Several([])


def same(run: Interpreter, node: Call, words: Several) -> Several:
    """tostring, and what hands out its arguments."""
    return Several([], words.all())


def formatted(run: Interpreter, node: Call, words: Several) -> Several:
    """string.format: what stands before the first place to fill."""
    found = set()
    for one in words.at(0):
        known = isinstance(one, Text) and not one.open
        text = one.text.partition("%")[0] if known and isinstance(one, Text) else ""
        found.add(Text(rooted=False, text=text, open=True))
    return Several([frozenset(found)])


def guarded(run: Interpreter, node: Call, words: Several) -> Several:
    """pcall: behind whether it went well what the function gives."""
    rest = Several(words.front[1:], words.rest)
    found = together([run.apply(one, node, rest) for one in words.at(0)])
    return Several([SOMETHING, *found.front], found.rest)


HANDLERS: dict[str, Callable[[Interpreter, Call, Several], Several]] = {
    "redis.call": send,
    "redis.pcall": send,
    "unpack": unpack,
    "pairs": pairs,
    "ipairs": in_order,
    "next": pairs,
    "table.remove": taken,
    "table.insert": inserted,
    "tostring": same,
    "select": same,
    "string.format": formatted,
    "pcall": guarded,
}
