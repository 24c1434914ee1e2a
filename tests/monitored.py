"""The keys that moves touch while their tests run, by MONITOR, against docs/functions.md.

A move that touches a key which its page does not name fails the test in which it did. With
`--every-move` the run fails if a move was not called in tests/lua. The commands of a function
follow its call in MONITOR, because the server executes one call at a time.
"""

from __future__ import annotations

import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rqueue.store.library import library
from tests.servers import Server
from tools.keys import pattern_of
from tools.lua.commands import COMMANDS, keys_of, name_of

PAGE = Path(__file__).parent.parent / "docs" / "functions.md"
SECTION = re.compile(r"^## (\S+)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
TOUCHES = re.compile(r"^(?:TOUCHES|       ) (\S+) +\w+ +(?=reads |writes )(.+)$", re.MULTILINE)
ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
FUNCTION = re.compile(r"rq_[0-9a-f]+_(\w+)")
MOVES = {name.replace("/", "_"): name for name in library().moves}

# By move, the commands sent to keys of a pattern.
Seen = Mapping[str, set[tuple[str, str]]]


class Monitor:
    """Everything that a server receives until `lines` is called."""

    def __init__(self, server: Server) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(30)
        self.line.connect(server.url.removeprefix("unix://"))
        self.line.sendall(b"MONITOR\r\n")
        self.until(b"+OK\r\n")

    def lines(self) -> list[bytes]:
        """A line for each command; closes the connection."""
        # Its reply follows all earlier lines.
        self.line.sendall(b"RESET\r\n")
        lines = self.until(b"+RESET\r\n").split(b"\r\n")[:-2]
        self.line.close()
        return lines

    def until(self, end: bytes) -> bytes:
        """The output of the server up to a line."""
        parts: list[bytes] = []
        while not b"".join(parts[-2:]).endswith(end):
            part = self.line.recv(1 << 20)
            if not part:
                raise ConnectionError("the server has closed the connection of MONITOR")
            parts.append(part)
        return b"".join(parts)


def seen_in(lines: list[bytes]) -> Seen:
    """The commands of each move by key pattern."""
    seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
    move: str | None = None
    for line in lines:
        head, _, tail = line.partition(b'] "')
        # A quote inside an argument has a backslash before it.
        words = tail[:-1].split(b'" "')
        if not head.endswith(b" lua"):
            move = move_of(words)
            if move is not None:
                seen[move].update()
        elif move is not None:
            seen[move].update(touched_by(words))
    return seen


def move_of(words: list[bytes]) -> str | None:
    """The move that a command calls, of any build; None if it calls none."""
    if words[0].upper() not in (b"FCALL", b"FCALL_RO"):
        return None
    found = FUNCTION.fullmatch(words[1].decode())
    return MOVES.get(found[1]) if found else None


def touched_by(words: list[bytes]) -> Iterator[tuple[str, str]]:
    """The key patterns of a command, each with the command."""
    texts = [word.decode("utf-8", "replace") for word in words]
    if texts[0].upper() not in COMMANDS:
        yield "?", texts[0].upper()
        return
    for key in keys_of(texts):
        yield pattern(key), name_of(texts)


def pattern(key: str) -> str:
    """The pattern of a key on the page; the key itself if it has none."""
    short = ESCAPED.sub(unescaped, key).partition("}:")[2]
    found = pattern_of(short)
    return found.short if found else short or key


def unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


@cache
def named() -> Mapping[str, set[tuple[str, str]]]:
    """The patterns that the page names, by move, each with a command."""
    found: dict[str, set[tuple[str, str]]] = {}
    for move, section in SECTION.findall(PAGE.read_text("utf-8")):
        found[move] = {
            (short, word)
            for short, access in TOUCHES.findall(section)
            for word in re.findall(r"[A-Z][A-Z|]+", access)
        }
    return found


def unnamed(seen: Seen) -> list[str]:
    """The touched keys that the page does not name, as text."""
    return sorted(
        f"{move} sends {command} to {short}, which docs/functions.md does not name"
        for move, touched in seen.items()
        for short, command in touched - named()[move]
        if ("*", command) not in named()[move]
    )


class Watch:
    """A plugin that collects the moves of a pytest run, over all its processes. A complete run must
    call every move.
    """

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.seen: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seen |= set(getattr(node, "workeroutput", {}).get("watched", ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["watched"] = sorted(self.seen)
        elif session.exitstatus == pytest.ExitCode.OK and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for one in self.missing():
            terminalreporter.write_line(f"no test of tests/lua calls {one}", red=True)

    def missing(self) -> list[str]:
        """The moves that a complete run has not called."""
        return sorted(set(MOVES.values()) - self.seen) if self.whole else []
