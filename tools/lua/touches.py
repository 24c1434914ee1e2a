"""The key patterns that each move touches, and the commands that it sends to them.

The analysis follows a move into all functions that it calls. A key that cannot be determined is an
error with its line, so that the page of functions is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rqueue.store.assemble import move_names
from tools.keys import QUEUE, pattern_of
from tools.lua.arguments import UnknownKeys, arguments
from tools.lua.commands import COMMANDS, EVERY, NUMBERED, STREAMS, Command, name_of
from tools.lua.interpreter import Frame, Interpreter, Sent
from tools.lua.parser import parse
from tools.lua.values import ANY_KEY, NOTHING, Text, Value, Values, literals

LUA = Path(__file__).parent.parent.parent / "lua"
EVERY_KEY = "*"


@dataclass(slots=True)
class Touched:
    """The keys that one move touches: the commands by name of the pattern, `*` for any key; and the
    commands without a key.
    """

    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    keyless: set[str] = field(default_factory=set)

    @property
    def commands(self) -> set[str]:
        """All commands of the move."""
        return self.keyless.union(*self.keys.values())

    def allows(self, pattern: str, command: str) -> bool:
        """Whether the move may send a command to a key of this pattern."""
        return command in self.keys.get(pattern, ()) or command in self.keys.get(EVERY_KEY, ())


class Use(NamedTuple):
    """One command that a function sends to a pattern; None for a command without a key."""

    command: str
    pattern: str | None


def writes(command: str) -> bool:
    """Whether a command writes, by its name as `name_of` returns it."""
    return COMMANDS[command.partition("|")[0]].writes


@cache
def touches() -> Mapping[str, Touched]:
    """The keys that the moves of this tree touch, by move."""
    return touched_in(LUA)


def touched_in(folder: Path) -> dict[str, Touched]:
    """The keys that the moves of a folder touch, by move."""
    modules = {
        path.stem: (label(path, folder), parse(path.read_text("utf-8"), label(path, folder)))
        for path in sorted((folder / "lib").glob("*/*.lua"))
    }
    interpreter = Interpreter(modules)
    starts = {}
    for name in move_names(folder):
        path = folder / f"{name}.lua"
        text, file = path.read_text("utf-8"), label(path, folder)
        starts[name] = interpreter.chunk(file, parse(text, file), arguments(text, file))
    interpreter.settle()
    uses, problems = found_uses(interpreter)
    if problems:
        raise UnknownKeys("\n".join(problems))
    return {name: collected(interpreter.reached(frame), uses) for name, frame in starts.items()}


def label(path: Path, folder: Path) -> str:
    """A file's name in messages."""
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def collected(frames: Iterable[Frame], uses: Mapping[int, set[Use]]) -> Touched:
    """The uses of all functions that a move reaches."""
    found = Touched()
    for frame in frames:
        for use in uses.get(frame.number, ()):
            if use.pattern is None:
                found.keyless.add(use.command)
            else:
                found.keys[use.pattern].add(use.command)
    return found


def found_uses(interpreter: Interpreter) -> tuple[dict[int, set[Use]], list[str]]:
    """The uses of each frame, and what could not be determined."""
    uses: dict[int, set[Use]] = defaultdict(set)
    problems = set(interpreter.problems.values())
    for sent in interpreter.sent.values():
        names = literals(sent.words.at(0)) or []
        if not names:
            problems.add(f"{place(sent)}: the command is not a literal")
        for name in names:
            try:
                uses[sent.frame.number] |= set(uses_of(sent, name))
            except UnknownKeys as error:
                problems.add(f"{place(sent)}: {error}")
    return uses, sorted(problems)


def place(sent: Sent) -> str:
    """File and line of a command."""
    return f"{sent.frame.file}:{sent.line}"


def uses_of(sent: Sent, name: str) -> Iterator[Use]:
    """The uses of one call of a command."""
    command = COMMANDS.get(name)
    if command is None:
        raise UnknownKeys(f"{name} is not in tools/lua/commands.py")
    parts = literals(sent.words.at(1)) if command.has_subcommands else [""]
    if not parts:
        raise UnknownKeys(f"the subcommand of {name} is not a literal")
    found = key_values(sent, command)
    for spelled in (name_of([name, part]) for part in parts):
        if not found:
            yield Use(spelled, None)
        for values in found:
            if not values:
                raise UnknownKeys(f"{name} of a key that has no value")
            for value in values:
                yield Use(spelled, named(value, name, command))


def key_values(sent: Sent, command: Command) -> list[Values]:
    """The values of each key of a call."""
    words = sent.words
    if command.keys == EVERY:
        return [*words.front[1:], *([words.rest] if words.rest else [])]
    if command.keys == STREAMS:
        names = [literals(one) for one in words.front]
        rest = words.front[names.index(["STREAMS"]) + 1 :] if ["STREAMS"] in names else []
        return rest[: len(rest) // 2] or [NOTHING]
    if command.keys == NUMBERED:
        return [words.at(1), *(one for one in words.front[3:] if has_key(one))]
    first = 1 + command.has_subcommands
    return [words.at(first + n) for n in range(int(command.keys))]


def has_key(values: Values) -> bool:
    """Whether a word is a key; the number of keys is not evaluated."""
    return any(isinstance(one, Text) and one.rooted for one in values)


def named(value: Value, name: str, command: Command) -> str:
    """The name of the pattern of a key."""
    if value == ANY_KEY:
        return EVERY_KEY
    if not isinstance(value, Text) or not value.rooted:
        raise UnknownKeys(f"{name} of a key that does not begin with the root: {shown(value)}")
    pattern = pattern_of(value.text, begins=value.open)
    if pattern is None:
        raise UnknownKeys(f"{name} of {shown(value)}, which is not in rqueue/store/keys.py")
    if command.kind not in (None, pattern.kind):
        raise UnknownKeys(f"{name} of {pattern.short}, which is a {pattern.kind}")
    return pattern.name


def shown(value: Value) -> str:
    """A value as text for a message."""
    if not isinstance(value, Text):
        return type(value).__name__.lower()
    return (QUEUE.root if value.rooted else "") + value.text + ("..." if value.open else "")
