"""The Lua function library as this process calls it: its name, its text, and its moves.

In a wheel the library is one file, made when the wheel was built. In a source tree that file is
made at the first use, and again when something under lua/ has changed.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rqueue.store.assemble import FILE, SIGNATURES, assemble, clocked

Argument = str | bytes | int | float

PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Move:
    """One function of the library, and the names that its header gives to keys and arguments."""

    name: str
    function: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    each: tuple[str, ...]
    flags: tuple[str, ...]
    # The command that calls it: FCALL_RO where it only reads.
    verb: str

    def pack(
        self,
        keys: Mapping[str, str],
        args: Mapping[str, Argument],
        rows: Iterable[Sequence[Argument]] = (),
    ) -> list[Argument]:
        """The call's words after the function's name: number of keys, keys, arguments, rows.

        Each row is a NamedTuple whose fields are the header's EACH columns.
        """
        words: list[Argument] = [len(self.keys)]
        words += [keys[name] for name in self.keys]
        words += [args[name] for name in self.args]
        for one in rows:
            words += one
        return words


@dataclass(frozen=True, slots=True)
class Library:
    """All moves of one build. Its name ends with a hash of its content, and so do those of its
    functions: two releases work on one server side by side.
    """

    name: str
    source: str = field(repr=False)
    moves: Mapping[str, Move] = field(repr=False)


@cache
def library() -> Library:
    """The library of this installation."""
    return parse(built_text())


@cache
def clocked_library(clock: str) -> Library:
    """The same moves under the clock of a test, see `assemble.clocked`."""
    return parse(clocked(built_text(), clock))


def built_text() -> str:
    """The library file of this installation, made again where it is out of date."""
    built = PACKAGE / FILE
    sources = PACKAGE.parent / "lua"
    # Beside an installed package, a folder of this name is somebody else's.
    if not (sources / "lib" / "core" / "tasks.lua").is_file():
        return built.read_text(encoding="utf-8")
    if is_fresh(built, sources) and SIGNATURES in (text := built.read_text(encoding="utf-8")):
        return text
    text = assemble(sources)
    # In a tree that is not writable, each process assembles its own.
    with suppress(OSError):
        replace(built, text)
    return text


def build(folder: Path) -> Library:
    """The library of another folder of Lua sources; not written to disk."""
    return parse(assemble(folder))


def parse(text: str) -> Library:
    """Reads a library file."""
    source, _, signatures = text.rpartition(SIGNATURES)
    name = source[source.index("name=") + 5 : source.index("\n")]
    prefix = "rq_" + name.rpartition("_")[2] + "_"
    moves = {
        move: Move(
            name=move,
            function=prefix + move.replace("/", "_"),
            verb="FCALL_RO" if "no-writes" in signature["flags"] else "FCALL",
            **{part: tuple(names) for part, names in signature.items()},
        )
        for move, signature in json.loads(signatures).items()
    }
    return Library(name=name, source=source, moves=moves)


def is_fresh(built: Path, sources: Path) -> bool:
    """Whether the built file is newer than everything that it is made from."""
    try:
        made = built.stat().st_mtime_ns
    except OSError:
        return False
    builder = PACKAGE / "store" / "assemble.py"
    return builder.stat().st_mtime_ns <= made and newest_ns(sources) <= made


def newest_ns(folder: Path | str) -> int:
    """When the folder, or anything in it, changed last. Runs at each start from a source tree."""
    newest = Path(folder).stat().st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            changed = newest_ns(entry.path) if entry.is_dir() else entry.stat().st_mtime_ns
            newest = max(newest, changed)
    return newest


def replace(path: Path, text: str) -> None:
    """Writes a file whole: a process that reads it meanwhile sees the old one or the new one."""
    # Random: processes of several containers may have one number and share the tree.
    draft = path.with_suffix(f".{secrets.token_hex(8)}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
