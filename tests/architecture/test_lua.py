"""The Lua moves match the table of moves and their headers; rules for Lua modules."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from rqueue.task.state import TRANSITIONS, states
from tests.architecture.tree import LUA_MODULES, MOVES, content, for_each

FIRST_LINE = re.compile(r"-- (?P<verb>\w+): (?:no move|(?P<from>[A-Z_| -]+) -> (?P<to>[A-Z_| -]+))")
NUMBERED = re.compile(r"^-- (?:(?:KEYS|ARGV)|    )  ?(?P<at> ?\d+) (?P<name>\w+)", re.MULTILINE)
PLACE = re.compile(r"\b(KEYS|ARGV)\[(\d+)\]")
DIALECT = {"call", "pcall", "log", "error_reply", "status_reply", "LOG_WARNING", "acl_check_cmd"}
FUNCTION = re.compile(r"^(local )?function (?:\w+\.)?(\w+)\(", re.MULTILINE)
# The local names of a function: parameters, locals, loop variables.
LOCALS = re.compile(r"function [\w.]+\(([^)]*)\)|local ([\w, ]+?)(?: =|\n)|for ([\w, ]+) (?:in|=)")
GLOBALS = re.compile(r"\b(cmsgpack|struct|bit|os|io|require|loadstring|setmetatable)\.")


@for_each(MOVES)
def test_the_first_line_of_a_script_matches_the_table_of_moves(path: Path) -> None:
    first = FIRST_LINE.fullmatch(content(path).splitlines()[0])

    assert first is not None
    assert first["verb"] == path.stem
    move = TRANSITIONS.get(path.stem)
    if first["from"] is None:
        assert move is None or not move.targets
    else:
        assert move is not None, "the table has no such move"
        assert states(first["from"].replace("|", " ")) == move.sources
        # A row may have more than one file: each names its own steps.
        assert states(first["to"].replace("|", " ")) <= move.targets


@for_each(MOVES)
def test_header_and_code_have_the_same_places(path: Path) -> None:
    for kind in ("KEYS", "ARGV"):
        listed = section(path, kind)
        used = {int(at) for name, at in PLACE.findall(code(path)) if name == kind}

        assert [at for at, _ in listed] == list(range(1, len(listed) + 1))
        assert used <= set(range(1, len(listed) + 1))


@for_each(MOVES)
def test_keys_and_arguments_are_assigned_to_the_names_of_the_header(path: Path) -> None:
    """Each place is read once, into the local of the same name."""
    text = code(path)
    for kind in ("KEYS", "ARGV"):
        names = dict(section(path, kind))
        for line in text.splitlines():
            for name, at in assigned(line, kind):
                assert names[at] == name


@for_each(MOVES)
def test_the_header_of_a_script_has_every_section(path: Path) -> None:
    text = content(path)

    assert "\n-- KEYS  1 " in text
    assert "\n-- REPLY " in text
    assert not text.startswith("#!")


@for_each(MOVES)
def test_every_reply_word_is_in_the_header(path: Path) -> None:
    text = content(path)
    listed = re.search(r"\n-- REPLY (.+(?:\n--      .+)*)", text)

    assert listed is not None
    assert set(re.findall(r'return \{ "(\w+)"', code(path))) <= set(re.findall(r"\w+", listed[1]))


@for_each([*MOVES, *LUA_MODULES])
def test_scripts_use_only_the_permitted_lua_functions(path: Path) -> None:
    text = code(path)

    assert set(re.findall(r"\bredis\.(\w+)", text)) <= DIALECT
    assert GLOBALS.search(text) is None
    assert all(found.isupper() for found in re.findall(r'redis\.p?call\("(\w+)"', text))


@for_each(LUA_MODULES)
def test_a_module_defines_functions_of_its_own_table_and_local_ones(path: Path) -> None:
    outside = [line for line in code(path).splitlines() if line.strip() and line[0] != " "]
    defined = re.compile(rf"(?:local function \w+|function {path.stem}\.\w+)\(.*|end")

    assert [line for line in outside if not defined.fullmatch(line)] == []


def test_every_function_of_a_module_is_used() -> None:
    calls = {
        path: Counter(re.findall(r"(?<![\w.])([\w.]+)\(", code(path)))
        for path in [*MOVES, *LUA_MODULES]
    }
    everywhere = sum(calls.values(), Counter[str]())
    unused = []
    for path in LUA_MODULES:
        for kind, name in FUNCTION.findall(code(path)):
            called = name if kind else f"{path.stem}.{name}"
            # One of the occurrences is its definition.
            if (calls[path] if kind else everywhere)[called] < 2:
                unused.append(called)

    assert unused == []


def test_no_function_is_defined_twice() -> None:
    defined = [
        f"{path.stem}.{name}" for path in LUA_MODULES for _, name in FUNCTION.findall(code(path))
    ]
    bodies = Counter(
        body for path in LUA_MODULES for body in re.findall(r"\(.*\)\n((?:  .*\n)+)end", code(path))
    )

    assert [name for name, times in Counter(defined).items() if times > 1] == []
    assert [body for body, times in bodies.items() if times > 1] == []


def test_lua_modules_have_unique_names() -> None:
    names = [path.stem for path in LUA_MODULES]

    assert sorted(set(names)) == sorted(names)


@for_each([*MOVES, *LUA_MODULES])
def test_no_local_hides_a_module_that_its_function_calls(path: Path) -> None:
    names = {one.stem for one in LUA_MODULES}
    for function in re.split(r"^(?=(?:local )?function )", code(path), flags=re.MULTILINE):
        local = set(re.findall(r"\w+", " ".join(map(" ".join, LOCALS.findall(function)))))
        called = set(re.findall(r"(?<![\w.])(\w+)\.\w+\(", function))

        assert names & local & called == set()


def section(path: Path, kind: str) -> list[tuple[int, str]]:
    """The numbered names of one section of the header."""
    text = content(path)
    start = text.find(f"\n-- {kind}  ")
    if start < 0:
        return []
    rest = text[start + 1 :]
    end = re.search(r"\n-- (?=[A-Z])|\n(?!--)", rest)
    part = rest[: end.start() if end else len(rest)]
    return [(int(found["at"]), found["name"]) for found in NUMBERED.finditer(part)]


@cache
def code(path: Path) -> str:
    """The text without comments."""
    return re.sub(r"--.*", "", content(path))


def assigned(line: str, kind: str) -> list[tuple[str, int]]:
    """The locals that a line assigns from KEYS or ARGV, each with its place."""
    found = re.fullmatch(r"local ([\w, ]+) = (.+)", line.strip())
    if found is None:
        return []
    names = found[1].split(", ")
    values = found[2].split(", ")
    if len(names) != len(values):
        return []
    pairs = []
    for name, value in zip(names, values, strict=True):
        place = re.fullmatch(rf"(?:tonumber\()?{kind}\[(\d+)\]\)?", value)
        if place:
            pairs.append((name, int(place[1])))
    return pairs
