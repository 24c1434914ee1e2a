"""The scripts against the table of moves, their own headers and the dialect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rqueue.model.state import TRANSITIONS, states
from tests.architecture.tree import INCLUDES, SCRIPTS, label

FIRST_LINE = re.compile(r"-- (?P<verb>\w+): (?:no move|(?P<from>[A-Z_| -]+) -> (?P<to>[A-Z_| -]+))")
NUMBERED = re.compile(r"^-- (?:(?:KEYS|ARGV)|    )  ?(?P<at> ?\d+) (?P<name>\w+)", re.MULTILINE)
PLACE = re.compile(r"\b(KEYS|ARGV)\[(\d+)\]")
DIALECT = {"call", "pcall", "log", "error_reply", "status_reply", "LOG_WARNING"}
GLOBALS = re.compile(r"\b(cmsgpack|struct|bit|os|io|require|loadstring|setmetatable)\.")


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_a_script_says_the_move_that_the_table_has(path: Path) -> None:
    first = FIRST_LINE.fullmatch(path.read_text("utf-8").splitlines()[0])

    assert first is not None
    assert first["verb"] == path.stem
    move = TRANSITIONS.get(path.stem)
    if first["from"] is None:
        assert move is None or not move.targets
    else:
        assert move is not None, "the table has no such move"
        assert states(first["from"].replace("|", " ")) == move.sources
        # A move may have more than one script: each names the steps it takes.
        assert states(first["to"].replace("|", " ")) <= move.targets


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_a_header_counts_as_its_script_does(path: Path) -> None:
    for kind in ("KEYS", "ARGV"):
        listed = section(path, kind)
        used = {int(at) for name, at in PLACE.findall(code(path)) if name == kind}

        assert [at for at, _ in listed] == list(range(1, len(listed) + 1))
        assert used <= set(range(1, len(listed) + 1))


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_keys_and_arguments_are_named_first(path: Path) -> None:
    """Each place is read once, into the local that the header names."""
    text = code(path)
    for kind in ("KEYS", "ARGV"):
        names = dict(section(path, kind))
        for line in text.splitlines():
            for name, at in assigned(line, kind):
                assert names[at] == name


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_a_script_has_every_section(path: Path) -> None:
    text = path.read_text("utf-8")

    assert "\n-- KEYS  1 " in text
    assert "\n-- REPLY " in text
    assert not text.startswith("#!")


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_a_reply_word_stands_in_the_header(path: Path) -> None:
    text = path.read_text("utf-8")
    listed = re.search(r"\n-- REPLY (.+(?:\n--      .+)*)", text)

    assert listed is not None
    assert set(re.findall(r'return \{ "(\w+)"', code(path))) <= set(re.findall(r"\w+", listed[1]))


@pytest.mark.parametrize("path", [*SCRIPTS, *INCLUDES], ids=label)
def test_only_our_dialect_is_spoken(path: Path) -> None:
    text = code(path)

    assert set(re.findall(r"\bredis\.(\w+)", text)) <= DIALECT
    assert GLOBALS.search(text) is None
    assert all(found.isupper() for found in re.findall(r'redis\.p?call\("(\w+)"', text))


@pytest.mark.parametrize("path", INCLUDES, ids=label)
def test_an_include_is_one_function_of_its_name(path: Path) -> None:
    functions = re.findall(r"^local function (\w+)", path.read_text("utf-8"), re.MULTILINE)

    assert functions == [path.stem]
    outside = [line for line in code(path).splitlines() if line and not line.startswith(" ")]
    assert {line.split("(")[0] for line in outside} <= {f"local function {path.stem}", "end"}


@pytest.mark.parametrize("path", INCLUDES, ids=label)
def test_every_include_is_used(path: Path) -> None:
    wanted = re.compile(rf"^-- @include {path.stem}( rarely)?$", re.MULTILINE)

    assert any(wanted.search(other.read_text("utf-8")) for other in [*SCRIPTS, *INCLUDES])


def section(path: Path, kind: str) -> list[tuple[int, str]]:
    """The numbered names of one part of the header."""
    text = path.read_text("utf-8")
    start = text.find(f"\n-- {kind}  ")
    if start < 0:
        return []
    rest = text[start + 1 :]
    end = re.search(r"\n-- (?=[A-Z])|\n(?!--)", rest)
    part = rest[: end.start() if end else len(rest)]
    return [(int(found["at"]), found["name"]) for found in NUMBERED.finditer(part)]


def code(path: Path) -> str:
    """The text without its comments."""
    return re.sub(r"--.*", "", path.read_text("utf-8"))


def assigned(line: str, kind: str) -> list[tuple[str, int]]:
    """The locals that a line fills from KEYS or ARGV, each with its place."""
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
