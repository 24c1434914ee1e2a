"""Finds the line of an error text that names the error: the last line of a traceback.

The text is arbitrary, and may be cut: at its end, or with its middle left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


HEADER = "Traceback (most recent call last):"
# How deep tracebacks within messages are parsed.
MAX_HEADER_DEPTH = 3
CHAINED = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):[ \r]*$",
    re.MULTILINE,
)
# What `described` inserts where it leaves the middle out.
LEFT_OUT = re.compile(r"\.\.\. \d+ characters \.\.\.")
NAMED = re.compile(r"[^\W\d][\w.<>]*(?::.*)?")
FRAME = re.compile(r'[ |]*File "(.*)", line \d+(?:, in (.+))?')
# How the parts of a group are drawn: its margin, and the lines between one error and the next.
MARGIN = re.compile(r"^ *[|+] ?")
GROUP = "Exception Group "
RULE = re.compile(r" *\+(?:-\+)?-{8,} (?:\d+|\.\.\.) -{8,}")
LAST_RULE = re.compile(r" *\+-{8,}")
# Comprehensions are functions in some releases of Python and none in others.
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
SITE = re.compile(r".*/(?:site|dist)-packages/([^/]+)")
PYTHONS = re.compile(r".*/lib(?:64)?/python\d[^/]*/|<frozen ")
PACKAGES = (
    "archive|artifacts|budgets|cli|core|dags|dead|embedded|explain|fleet|inbox|limits|maintenance"
    "|metrics|notices|process|producer|settings|store|task|testing|worker"
)
MODULES = (
    "__init__|__main__|clock|doctor|errors|finding|gauges|handlers|internals|log|middleware"
    "|operations|queue|runtime|services|sync"
)
OURS = re.compile(rf"(?:.*/)?rqueue/(?:(?:{PACKAGES})/.*|(?:{MODULES})\.py)")


class Raised(NamedTuple):
    """What a traceback contains: the line of the last exception, and where the user's code raised
    it, "" where unknown. `causes` are the lines of the errors in a group.
    """

    line: str
    place: str
    causes: tuple[str, ...] = ()


class Frame(NamedTuple):
    """A frame line of a traceback."""

    path: str
    function: str


def headline(error: str) -> str:
    """An error in one line: the exception that a traceback ends with, else the first line that is
    not empty.
    """
    found = raised(error)
    return first(error.split("\n")) if found is None else found.line


def raised(error: str, *, depth: int = 0) -> Raised | None:
    """The exception of a traceback; None where the error has none."""
    parts = [part.split("\n") for part in CHAINED.split(error.replace("\r\n", "\n"))]
    # The last part may be cut off: then the last complete one counts.
    for part in reversed(parts):
        found = read(part, depth) or (read_alone(part) if len(parts) > 1 else None)
        if found is not None:
            return found
    place = place_of(list(frames(parts[-1])))
    if HEADER not in error or not place:
        return None
    return Raised(f"a traceback without its end: {place}", "")


def read(lines: Sequence[str], depth: int) -> Raised | None:
    """The exception of one traceback of a chain."""
    causes: tuple[str, ...] = ()
    rule = next((at for at, line in enumerate(lines) if RULE.fullmatch(line)), None)
    if rule is not None:
        causes = tuple(dict.fromkeys(group_lines(lines[rule:], depth)))
        own = [MARGIN.sub("", line) for line in lines[:rule]]
        lines = own if any(map(begins, own)) else [HEADER, *own]
    begin = next((at for at, line in enumerate(lines) if begins(line)), None)
    if begin is None:
        return None
    end = end_of(lines, begin)
    if end is None:
        return None
    before = lines[begin].strip().removesuffix(HEADER).removesuffix(GROUP)
    before = "" if FRAME.fullmatch(before) else before
    line = before + message_line(lines[end:], depth)
    return Raised(line, place_of(list(frames(lines[begin:end]))), causes)


def begins(line: str) -> bool:
    """Whether frames follow the line; a SyntaxError that was never raised has no header."""
    return line.rstrip().endswith(HEADER) or (
        line.startswith("File ") and FRAME.fullmatch(line.rstrip()) is not None
    )


def end_of(lines: Sequence[str], begin: int) -> int | None:
    """Where the frames end: at the first line that is not indented."""
    known, at = False, begin + 1
    doubtful = not lines[begin].startswith(HEADER)
    while at < len(lines):
        line = lines[at]
        if LEFT_OUT.fullmatch(line.strip()):
            # The next line is the rest of a cut one; the one after it may be part of the message.
            at, doubtful = at + 2, True
            continue
        if line.strip() and not line[0].isspace():
            sure = known and not doubtful
            return at if sure or NAMED.fullmatch(line.rstrip()) else None
        known = known or bool(line.strip())
        at += 1
    return None


def message_line(lines: Sequence[str], depth: int) -> str:
    """The line of an exception. Where its message begins with an empty line, the next line; where
    the message is a traceback, that one's exception.
    """
    line = lines[0].strip()
    if line.endswith(HEADER) and depth < MAX_HEADER_DEPTH:
        found = raised("\n".join([HEADER, *lines[1:]]), depth=depth + 1)
        return line if found is None else line.removesuffix(HEADER) + found.line
    return f"{line} {first(lines[1:])}".strip() if line.endswith(":") else line


def read_alone(lines: Sequence[str]) -> Raised | None:
    """An exception of a chain without frames."""
    line = first(lines)
    return Raised(line, "") if NAMED.fullmatch(line) else None


def group_lines(lines: Sequence[str], depth: int) -> Iterator[str]:
    """A line for each error in a group; for a nested group its own, and those of its errors."""
    block: list[str] = []
    for line in [*lines, lines[0]]:
        if not RULE.fullmatch(line):
            block += [] if LAST_RULE.fullmatch(line) else [MARGIN.sub("", line)]
        elif block:
            found = raised("\n".join(block), depth=depth)
            yield first(block) if found is None else found.line
            block = []


def frames(lines: Sequence[str]) -> Iterator[Frame]:
    """The frames of a traceback."""
    for line in lines:
        found = FRAME.fullmatch(line.rstrip())
        if found is not None and found[2] is not None and found[2] not in INLINED:
            yield Frame(found[1].replace("\\", "/"), found[2].rpartition(".")[2])


def place_of(found: Sequence[Frame]) -> str:
    """Where the user's code was: its innermost function, and the file name without numbers."""
    own = user_frames(found) or found
    if not own:
        return ""
    path, function = own[-1]
    file = re.sub(r"\d+", "", path.rpartition("/")[2])
    return f"{function} in {file}"


def user_frames(found: Sequence[Frame]) -> Sequence[Frame]:
    """The frames of the user's code. Where all of it is installed, those of the package whose
    function was called first.
    """
    others = [one for one in found if not is_ours(one.path)]
    plain = [one for one in others if not (SITE.match(one.path) or PYTHONS.match(one.path))]
    packages = [package for one in others if (package := SITE.match(one.path))]
    if plain or not packages:
        return plain
    return [one for one in others if (match := SITE.match(one.path)) and match[1] == packages[0][1]]


def is_ours(path: str) -> bool:
    """Whether a file is one of this package's."""
    return OURS.fullmatch(path) is not None


def first(lines: Sequence[str]) -> str:
    """The first line that is not empty."""
    return next((line.strip() for line in lines if line.strip()), "")


# How deep causes and groups are followed, and how many errors are read: both may be
# attacker-controlled, and a group may contain another several times.
MAX_DEPTH = 10
MAX_ERRORS = 1000


def group_members(error: BaseException) -> list[BaseException]:
    """An error and, of a group, all errors in it, in order."""
    return reachable(error, grouped)


def causes_of(error: BaseException) -> tuple[BaseException, ...]:
    """The errors of a group, and an error's cause. Its context, an error that was being
    handled, is not its cause.
    """
    cause = error.__cause__
    return (*grouped(error), *(() if cause is None else (cause,)))


def reachable(
    error: BaseException, following: Callable[[BaseException], Iterable[BaseException]]
) -> list[BaseException]:
    """All errors that can be reached from an error, each once."""
    found: dict[int, BaseException] = {}
    left = [(error, 0)]
    while left and len(found) < MAX_ERRORS:
        one, depth = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            further = list(following(one)) if depth < MAX_DEPTH else []
            left += [(each, depth + 1) for each in reversed(further)]
    return list(found.values())


def grouped(error: BaseException) -> tuple[BaseException, ...]:
    """The errors of a group."""
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()
