"""Assembles the Lua function library: one file from the modules and moves under lua/.

Only the standard library is imported: the wheel's build runs this file before anything else is
installed. A header names a move's KEYS and ARGV in order and, where a call carries many rows, the
columns of EACH one; the last line of the file contains the signatures as JSON, so that a user's
process reads one file and parses no Lua.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FILE = "_library.lua"
SIGNATURES = "-- signatures: "
SECTIONS = ("KEYS", "ARGV", "EACH", "FLAGS", "REPLY")
EACH = re.compile(r"^-- EACH .*\n(?:--      .*\n)*", re.MULTILINE)
COLUMN = re.compile(r"-- (?:EACH|    )  (\w+)")
# While a library is loaded, Redis hides all globals but `redis.register_function`; afterwards it
# finds them through a metatable. They become upvalues at the first call, which makes each use
# faster.
GLOBALS = (
    "redis", "cjson", "string", "math", "table", "tonumber", "tostring", "type", "ipairs",
    "pairs", "next", "unpack",
)  # fmt: skip
HASH_LENGTH = 12
API = f"local function api() return {', '.join(GLOBALS)} end"
CLOCKED_API = API.replace(" redis,", " clocked(redis),")


def assemble(folder: Path) -> str:
    """The text of the library file: what the server loads, then the line of signatures."""
    modules = sorted((folder / "lib").glob("*/*.lua"))
    moves = [folder / f"{name}.lua" for name in move_names(folder)]
    names = ", ".join(GLOBALS)
    lines = [
        API,
        "local register = redis.register_function",
        f"local {names}",
        *(f"local {path.stem} = {{}}" for path in modules),
    ]
    for path in modules:
        lines += ["do -- " + path.relative_to(folder).as_posix(), *code(path), "end"]
    for path in moves:
        lines += registration(path, names)
    signatures = json.dumps({name: signature(folder, name) for name in move_names(folder)})
    return named("\n".join(lines), signatures)


def named(body: str, signatures: str) -> str:
    """The library file of this content: the names in it carry its hash."""
    digest = hashlib.sha256(body.encode()).hexdigest()[:HASH_LENGTH]
    body = body.replace("rq_HASH_", f"rq_{digest}_")
    return f"#!lua name=rqueue_{digest}\n{body}\n{SIGNATURES}{signatures}\n"


def clocked(text: str, clock: str) -> str:
    """The library file `text` with another clock, for tests: its moves call `clocked(redis)`
    instead of `redis`. `clock` is the Lua that defines this function.
    """
    source, _, signatures = text.rpartition(SIGNATURES)
    first, _, body = source.rstrip("\n").partition("\n")
    digest = first.rpartition("_")[2]
    body = body.replace(f"rq_{digest}_", "rq_HASH_").replace(API, CLOCKED_API, 1)
    return named(f"{clock.strip()}\n{body}", signatures.strip())


def move_names(folder: Path) -> list[str]:
    """Every move, as `noun/verb`."""
    found = (path for path in folder.glob("*/*.lua") if path.parent.name != "lib")
    return sorted(f"{path.parent.name}/{path.stem}" for path in found)


def code(path: Path) -> list[str]:
    """A file's lines without blank ones and whole lines of comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("--")]


def registration(path: Path, names: str) -> list[str]:
    """The lines that register one move as a function of the library."""
    sections, _, _ = header(path.read_text(encoding="utf-8"))
    flags = ", ".join(f"'{flag}'" for flag in sections.get("FLAGS", "").split())
    function = f"rq_HASH_{path.parent.name}_{path.stem}"
    return [
        f"register{{function_name = '{function}', flags = {{{flags}}}, "
        "callback = function(KEYS, ARGV)",
        f"if not redis then {names} = api() end",
        *code(path),
        "end}",
    ]


def signature(folder: Path, name: str) -> dict[str, Any]:
    """What a caller needs of a move: its names in order, and its flags."""
    text = (folder / f"{name}.lua").read_text(encoding="utf-8")
    sections, _, _ = header(text)
    return {
        "keys": list(numbered(sections.get("KEYS", ""))),
        "args": list(numbered(sections.get("ARGV", ""))),
        "each": list(columns(text)),
        "flags": sections.get("FLAGS", "").split(),
    }


def header(text: str) -> tuple[dict[str, str], str, str]:
    """A header's sections by word, its prose, and the move of its first line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].rstrip())
    move = lines[0].split(":", 1)[1].strip()
    sections: dict[str, str] = {}
    prose: list[str] = []
    word = ""
    for line in lines[1:]:
        start = line[1:].split(" ", 1)[0]
        if start in SECTIONS:
            word = start
            sections[word] = line[1 + len(word) :].strip()
        elif word and line.startswith("     "):
            sections[word] += "\n" + line.strip()
        elif not word:
            prose.append(line.strip())
    return sections, "\n".join(prose).strip(), move


def numbered(section: str) -> Iterator[str]:
    """The names of lines such as `1 task hash ...`, in order; others continue an explanation."""
    for line in section.splitlines():
        if line[:1].isdigit():
            yield line.split()[1]


def columns(text: str) -> Iterator[str]:
    """The names of an EACH section's lines such as `task its id`, in order; lines that are
    indented further continue an explanation.
    """
    each = EACH.search(text)
    for line in each[0].splitlines() if each else ():
        found = COLUMN.match(line)
        if found:
            yield found[1]
