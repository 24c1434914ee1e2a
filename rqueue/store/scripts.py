"""Reads the Lua scripts: the header is the signature, includes are pasted, names are the call.

A header names its KEYS and ARGV in order and, where a call carries many tasks, the columns of
EACH row. Python passes names; the order is the header's business alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

SECTIONS = ("KEYS", "ARGV", "EACH", "TOUCHES", "FLAGS", "REPLY")
EACH = re.compile(r"^-- EACH .*\n(?:--      .*\n)*", re.MULTILINE)
COLUMN = re.compile(r"-- (?:EACH|    )  (\w+)")
INCLUDE = re.compile(r"^-- @include (\w+)( rarely)?\s*$")

Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One move as the server runs it, and what its header says of it."""

    name: str
    move: str
    doc: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    each: tuple[str, ...]
    sections: Mapping[str, str] = field(repr=False)
    source: str = field(repr=False)
    sha: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that the server is told in the first line."""
        return tuple(self.sections.get("FLAGS", "").split())

    def pack(
        self,
        keys: Mapping[str, str],
        args: Mapping[str, Argument],
        rows: Iterable[Sequence[Argument]] = (),
    ) -> list[Argument]:
        """The call's words after the script's name: number of keys, keys, arguments, rows.

        Each row is a NamedTuple whose fields are the header's EACH columns.
        """
        words: list[Argument] = [len(self.keys)]
        words += [keys[name] for name in self.keys]
        words += [args[name] for name in self.args]
        for one in rows:
            words += one
        return words


def folder() -> Path:
    """Where the scripts are: inside the wheel, or beside the package in a source tree."""
    packed = Path(str(files("rqueue"))) / "_lua"
    return packed if packed.is_dir() else Path(str(files("rqueue"))).parent / "lua"


@cache
def names(where: Path) -> tuple[str, ...]:
    """Every script, as `noun/verb`."""
    found = (path for path in where.glob("*/*.lua") if path.parent.name != "include")
    return tuple(sorted(f"{path.parent.name}/{path.stem}" for path in found))


@cache
def load(name: str, where: Path, *, strict: bool) -> Script:
    """Reads one script. `strict` prepends `#!lua` with its flags, which the fake cannot read."""
    text = (where / f"{name}.lua").read_text(encoding="utf-8")
    sections, doc, move = header(text)
    flags = sections.get("FLAGS", "")
    first = f"#!lua flags={','.join(flags.split())}\n" if flags else "#!lua\n"
    source = (first if strict else "") + assemble(text, where)
    return Script(
        name=name,
        move=move,
        doc=doc,
        keys=tuple(numbered(sections.get("KEYS", ""))),
        args=tuple(numbered(sections.get("ARGV", ""))),
        each=tuple(columns(text)),
        sections=sections,
        source=source,
        sha=hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(),
    )


def header(text: str) -> tuple[dict[str, str], str, str]:
    """A header's sections by word, its prose, and the move of its first line."""
    lines = [line[2:].rstrip() for line in text.splitlines() if line.startswith("--")]
    lines = [line for line in lines if not line.startswith(" @include")]
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
    """The names of lines such as `1 task hash ...`, in order; other lines go on explaining."""
    for line in section.splitlines():
        if line[:1].isdigit():
            yield line.split()[1]


def columns(text: str) -> Iterator[str]:
    """The names of an EACH section's lines such as `task its id`, in order; lines that stand
    further in go on explaining.
    """
    each = EACH.search(text)
    for line in each[0].splitlines() if each else ():
        found = COLUMN.match(line)
        if found:
            yield found[1]


def assemble(text: str, where: Path) -> str:
    """The script with its includes pasted once each, before those that use them.

    `-- @include name rarely` wraps the function and all that it alone needs: what is inside is
    made only when it is first called, and a call of the script that does not need it is the
    quicker.
    """
    pasted: dict[str, str] = {}
    body = resolve(text, where, pasted, ())
    return "\n".join([*pasted.values(), body])


def resolve(text: str, where: Path, pasted: dict[str, str], path: tuple[str, ...]) -> str:
    """The text without its include lines; what they name is added to `pasted`, deepest first."""
    kept: list[str] = []
    rare: list[str] = []
    for line in text.splitlines():
        found = INCLUDE.match(line)
        if not found:
            kept.append(line)
        elif found[1] in path:
            raise ValueError(f"includes form a cycle: {' -> '.join((*path, found[1]))}")
        elif found[2]:
            rare.append(found[1])
        elif found[1] not in pasted:
            inner = (where / "include" / f"{found[1]}.lua").read_text(encoding="utf-8")
            # Set only after what it needs itself, so that the order of the dict is the order
            # of definition.
            pasted[found[1]] = resolve(inner, where, pasted, (*path, found[1]))
    for name in rare:
        pasted.setdefault(name, wrapped(name, where, pasted, path))
    return "\n".join(kept)


def wrapped(name: str, where: Path, pasted: Mapping[str, str], path: tuple[str, ...]) -> str:
    """A function that makes itself, and what it needs beyond what is there, when it is first
    called.
    """
    inside = dict(pasted)
    inner = (where / "include" / f"{name}.lua").read_text(encoding="utf-8")
    body = resolve(inner, where, inside, (*path, name))
    needed = [text for key, text in inside.items() if key not in pasted]
    lines = "\n".join([*needed, body])
    return (
        f"local made_{name}\nlocal function {name}(...)\nif not made_{name} then\n{lines}\n"
        f"made_{name} = {name}\nend\nreturn made_{name}(...)\nend"
    )
