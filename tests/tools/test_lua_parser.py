"""The Lua parser: the tree of a file, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.lua import tree
from tools.lua.parser import LuaSyntaxError, parse
from tools.lua.touches import LUA


def only(text: str) -> tree.Statement:
    (found,) = parse(text, "f.lua").body
    return found


def value(text: str) -> tree.Expression:
    found = only(f"local a = {text}")
    assert isinstance(found, tree.Assign)
    return found.values[0]


def shape(node: tree.Expression) -> object:
    """An expression without its lines."""
    parts = SHAPES.get(type(node))
    return parts(node) if parts else type(node).__name__


SHAPES: dict[type, Callable[[Any], object]] = {
    tree.String: lambda node: node.text,
    tree.Number: lambda node: node.value,
    tree.Name: lambda node: f"<{node.name}>",
    tree.Operation: lambda node: (shape(node.left), node.operator, shape(node.right)),
    tree.Anything: lambda node: [shape(one) for one in node.operands],
    tree.Index: lambda node: (shape(node.object), ".", shape(node.key)),
    tree.Call: lambda node: (shape(node.function), *map(shape, node.arguments)),
    tree.Paren: lambda node: shape(node.inner),
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"a" .. "b" .. "c"', ("a", "..", ("b", "..", "c"))),
        ("1 + 2 + 3", ((1, "+", 2), "+", 3)),
        ("x + 1 .. y", (("<x>", "+", 1), "..", "<y>")),
        ("a and b or c", (("<a>", "and", "<b>"), "or", "<c>")),
        ("not a and b", (["<a>"], "and", "<b>")),
        ("a == b .. c", ["<a>", ("<b>", "..", "<c>")]),
        ("-x ^ 2", [["<x>", 2]]),
        ("f(x)[1].y", ((("<f>", "<x>"), ".", 1), ".", "y")),
        ('f"x"', ("<f>", "x")),
        ("(a or b).c", (("<a>", "or", "<b>"), ".", "c")),
        ("0x10 + .5", (16, "+", 0.5)),
        (r'"a\"b\n"', 'a"b\n'),
        ("[[\nlong]]", "long"),
        ("nil", "Nothing"),
        ("...", "Rest"),
        ("#list", "Length"),
    ],
)
def test_an_expression_binds_as_lua_does(text: str, found: object) -> None:
    assert shape(value(text)) == found


def test_a_table_separates_fields_and_positions() -> None:
    found = value('{ 1, name = 2, ["other"] = 3; 4 }')

    assert isinstance(found, tree.Table)
    assert [shape(key) for key, _ in found.fields] == ["name", "other"]
    assert [shape(item) for item in found.items] == [1, 4]


def test_a_name_refers_to_the_local_of_the_nearest_scope() -> None:
    outer = parse("local a = 1\nif a then local a = a\nf(a) end\ng(a)", "f.lua")
    first, branch, last = outer.body
    assert isinstance(first, tree.Assign)
    assert isinstance(branch, tree.If)
    assert isinstance(last, tree.Evaluate)
    inner, call = branch.branches[0][1]
    assert isinstance(inner, tree.Assign)
    assert isinstance(call, tree.Evaluate)

    def local(node: tree.Expression) -> tree.Local | None:
        found = node.arguments[0] if isinstance(node, tree.Call) else node
        assert isinstance(found, tree.Name)
        return found.local

    assert local(inner.values[0]) is local(first.targets[0])
    assert local(call.value) is local(inner.targets[0])
    assert local(last.value) is local(first.targets[0])


def test_a_function_has_its_parameters_returns_and_enclosing_scope() -> None:
    text = "function m.f(a, ...)\n  local function g() return 1 end\n  return g(), a\nend"
    found = only(text)
    assert isinstance(found, tree.Assign)
    function = found.values[0]
    assert isinstance(function, tree.Function)

    assert function.name == "m.f"
    assert [one.name for one in function.parameters] == ["a"]
    assert [len(one.values) for one in function.returns] == [2]
    inner = function.body[0]
    assert isinstance(inner, tree.Assign)
    assert isinstance(inner.values[0], tree.Function)
    assert inner.values[0].outer is function


@pytest.mark.parametrize(
    "text",
    [
        "for i = 1, 2 do f(i) end",
        "for k, v in pairs(t) do f(k, v) end",
        "while a do break end",
        "repeat local a = f() until a",
        "do local a; a = 1 end",
        "if a then elseif b then else end",
        "a.b, c[1] = f()",
        "return",
        "s:rep(2)",
    ],
)
def test_every_statement_is_parsed(text: str) -> None:
    only(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("local a = 1\nf(a", "f.lua:2: ) expected, not '<end of file>'"),
        ("if a then", "f.lua:1: elseif or else or end expected, not '<end of file>'"),
        ("local 1", "f.lua:1: a name expected, not '1'"),
        ("a.b", "f.lua:1: = expected, not '<end of file>'"),
        ("f()\n\na = {1 2}", "f.lua:3: } expected, not '2'"),
        ("a = $", "f.lua:1: unexpected '$'"),
        ("end", "f.lua:1: a name expected, not 'end'"),
    ],
)
def test_invalid_lua_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(LuaSyntaxError) as caught:
        parse(text, "f.lua")

    assert str(caught.value) == why


def test_a_node_has_its_line_after_comments_and_long_strings() -> None:
    found = parse("-- a\n--[[ b\nc ]]\nlocal x = [[\n\n]]\nf()", "f.lua")

    assert [one.line for one in found.body] == [4, 7]


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_every_lua_file_of_the_project_is_parsed(path: Path) -> None:
    assert parse(path.read_text("utf-8"), path.name).body
