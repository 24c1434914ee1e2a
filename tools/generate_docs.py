"""Writes the pages of docs/ and the files of deploy/ that are made from code; with --check, says
which are stale.

A page whose source does not exist yet is left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from rqueue.settings.profiles import PROFILES
from rqueue.task.state import FINAL, LEASED, MEANINGS, TRANSITIONS, Move, State
from tools.acl import users
from tools.keys import QUEUE, patterns
from tools.lua.touches import EVERY_KEY, LUA, Touched, touches, writes

ROOT = Path(__file__).parent.parent
NOTE = "<!-- Made by `make docs` from {source}; change it there. -->"
UNITS = {"_sec": "seconds", "_bytes": "bytes", "_per_minute": "points a minute"}
TYPES = {"str": "text", "Path": "path", "int": "number", "bool": "yes or no"}
SECTIONS = ("KEYS", "ARGV", "EACH", "FLAGS", "REPLY")
HEADER = re.compile(r"-- (?P<name>[\w/]+): (?P<move>.+)")


def main() -> int:
    """Write or check every page; 1 when a checked one is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    check = parser.parse_args().check
    stale = stale_pages()
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


def stale_pages() -> dict[Path, str]:
    """The pages that are not as their source wants them, with the text that is wanted."""
    wanted = {ROOT / name: page() for name, (module, page) in PAGES.items() if exists(module)}
    return {path: text for path, text in wanted.items() if text_of(path) != text}


def exists(module: str) -> bool:
    """Whether a module of the package is there."""
    return importlib.util.find_spec(module) is not None


def text_of(path: Path) -> str:
    """A page as it is now."""
    return path.read_text("utf-8") if path.exists() else ""


def state_machine() -> str:
    """The table of states, the table of moves, and the picture of both."""
    states = [(f"`{state}`", kind(state), MEANINGS[state]) for state in State]
    moves = [
        (f"`{move.verb}`", listed(move.sources), listed(move.targets), move.who)
        for move in TRANSITIONS.values()
    ]
    picture = ["```mermaid", "stateDiagram-v2", *arrows(), "```"]
    return page(
        "The state machine",
        "rqueue/task/state.py",
        "Where a task can be, and every move there is. A move is one script, whole or not at all.",
        "## States",
        table(("state", "kind", "meaning"), states),
        "## Moves",
        table(("move", "from", "to", "who"), moves),
        "## Picture",
        "\n".join(picture),
    )


def kind(state: State) -> str:
    """The state's family."""
    if state in FINAL:
        return "final"
    if state in LEASED:
        return "in hand"
    return "passed through" if state is State.FAILED else "waiting"


def listed(states: Iterable[State]) -> str:
    """States in the order of their definition."""
    found = set(states)
    return ", ".join(f"`{state}`" for state in State if state in found) or "-"


def arrows() -> list[str]:
    """One line for each pair of states, with the verbs that lead from one to the other."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for move in TRANSITIONS.values():
        for source, target in steps(move):
            verbs.setdefault((source, target), []).append(move.verb)
    lines = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in verbs.items()]
    return lines + [f"    {state} --> [*]" for state in State if state in FINAL]


def steps(move: Move) -> list[tuple[str, str]]:
    """The arrows of a move; FAILED is passed through on the way to what follows it."""
    targets: list[str] = [state for state in State if state in move.targets]
    sources: list[str] = [state for state in State if state in move.sources] or ["[*]"]
    if State.FAILED in targets:
        after = [state for state in targets if state in {State.RETRYING, State.DEAD_LETTERED}]
        direct = [state for state in targets if state not in after]
        return [(a, b) for a in sources for b in direct] + [(State.FAILED, b) for b in after]
    return [(a, b) for a in sources for b in targets]


def keys() -> str:
    """Every key, its type and what it holds, from the methods of Keys."""
    rows = [(f"`{one.name}`", f"`{one.key}`", one.kind, one.holds) for one in patterns()]
    return page(
        "Keys",
        "rqueue/store/keys.py",
        "Every key of one shard. The part in braces is the shard's hash tag, so that all keys of"
        " one script call live in one slot.",
        table(("name", "key", "type", "holds"), rows),
    )


def functions() -> str:
    """Every move with its signature, as its header says, and what it touches."""
    parts: list[str] = []
    for name, touched in touches().items():
        move, story, signature = header((LUA / f"{name}.lua").read_text("utf-8"))
        block = "\n".join([signature, *touched_lines(touched)])
        parts += [f"## {name}", f"`{move}`", story, f"```text\n{block}\n```"]
    return page(
        "Functions",
        "lua/",
        "Each move is one function of the Lua library. Python calls it by these names, never by"
        " position.",
        "TOUCHES lists the keys that a move may read or write, after the root"
        f" `{QUEUE.root}`, with their types and the commands; [keys.md](keys.md) says what they"
        " hold. It is found by following the code of the move and of all that it calls, whatever"
        " the arguments: one call touches only some of them. The tests of the moves check it"
        " against what MONITOR records.",
        *parts,
    )


def touched_lines(touched: Touched) -> list[str]:
    """What a move touches, a line for each pattern, in the order of docs/keys.md."""
    known = [one for one in patterns() if one.name in touched.keys]
    rows = [(one.short, one.kind, touched.keys[one.name]) for one in known]
    if EVERY_KEY in touched.keys:
        rows.append((EVERY_KEY, "any", touched.keys[EVERY_KEY]))
    width = max((len(short) for short, _, _ in rows), default=0)
    heads = ["TOUCHES", *[" " * 7] * len(rows)]
    return [
        f"{head} {short:{width}}  {kind:6}  {access(commands)}"
        for head, (short, kind, commands) in zip(heads, rows, strict=False)
    ]


def access(commands: Iterable[str]) -> str:
    """Commands by what they do to a key: `reads HGET; writes HDEL HSET`."""
    parts = {word: sorted(one for one in commands if writes(one) is does)
             for word, does in (("reads", False), ("writes", True))}  # fmt: skip
    return "; ".join(f"{word} {' '.join(names)}" for word, names in parts.items() if names)


def header(source: str) -> tuple[str, str, str]:
    """A script's move, what it does, and its signature."""
    lines = []
    for line in source.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").removeprefix(" ").rstrip())
    first = HEADER.match(f"-- {lines[0]}")
    move = first["move"] if first else lines[0]
    paragraphs = "\n".join(lines[1:]).strip().split("\n\n")
    story = [text for text in paragraphs if not text.startswith(SECTIONS)]
    signature = [text for text in paragraphs if text.startswith(SECTIONS)]
    return move, "\n\n".join(story), "\n".join(signature)


def events() -> str:
    """Every event with its severity, what it is about, what its detail holds, and when."""
    catalogue: Any = importlib.import_module("rqueue.core.events")
    rows = [
        (f"`{kind.name}`", str(kind.severity), kind.about, detail(kind.parts), kind.when)
        for kind in catalogue.KINDS
    ]
    return page(
        "Events",
        "rqueue/core/events.py",
        "What happens in a queue and is told. The stream `events` holds about the last 10,000;"
        " `queue.events()` and `rqueue events` read and follow it, sinks are told of it, see the"
        " [guide](guides/notices.md). A plain task that is completed tells nothing.",
        "An entry of the stream has `event`, the name; under the first word of that its subject"
        " (of `breaker` a type, of `role` a principal, of `budget` an account: a DAG, `day` or"
        " `worker=<name>`; of `task` one or more ids, blanks between); and `detail`, the words of"
        " its column below with blanks between. A text that comes last is all the rest.",
        table(("event", "severity", "about", "detail", "when"), rows),
    )


def detail(parts: Iterable[tuple[str, type]]) -> str:
    """The words of an event's detail."""
    return ", ".join(f"`{name}` {TYPES.get(kind.__name__, kind.__name__)}" for name, kind in parts)


def settings() -> str:
    """Every setting with its unit, default and variable."""
    module: Any = importlib.import_module("rqueue.settings.load")
    sources: Any = importlib.import_module("rqueue.settings.load")
    rows = []
    for name, field in module.Settings.model_fields.items():
        variable = "-" if name == "name" else f"`{sources.variable_of(name)}`"
        rows.append(
            (f"`{name}`", values(name, field), default(field), variable, field.description or "")
        )
    presets = [(name, module.profile_defaults(one)) for name, one in PROFILES.items()]
    profiles = [
        (f"`{setting}`", *(shown(parts[setting]) for _, parts in presets))
        for setting in presets[0][1]
    ]
    return page(
        "Settings",
        "rqueue/settings/load.py",
        "A setting is looked for in this order: the argument of `Queue`, the environment"
        f" variable, `queues.<name>` of `{sources.FILE}` in the working directory, the top level of"
        " that file, the profile's default, the default.",
        table(("setting", "value", "default", "variable", "meaning"), rows),
        "## Profiles",
        table(("setting", *(f"`{name}`" for name, _ in presets)), profiles),
    )


def values(name: str, field: Any) -> str:
    """What may be written: a unit, the words to choose from, or the type."""
    for suffix, unit in UNITS.items():
        if name.endswith(suffix):
            return unit
    words = [word for word in get_args(field.annotation) if isinstance(word, str)]
    if words:
        return ", ".join(f"`{word}`" for word in words)
    types = [part for part in get_args(field.annotation) if part is not type(None)]
    kind = str((types[0] if types else field.annotation).__name__)
    return TYPES.get(kind, kind)


def default(field: Any) -> str:
    """A setting's default, or that it must be given."""
    if field.is_required():
        return "required"
    found = field.get_default(call_default_factory=True)
    return "-" if found is None else shown(found)


def shown(value: object) -> str:
    """A value as one would write it."""
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    if hasattr(value, "model_dump"):
        changed = value.model_dump(exclude_defaults=True)
        words = ", ".join(f"{name} {item}" for name, item in changed.items())
        return f"{type(value).__name__}({words})"
    return f"`{value}`"


def page(title: str, source: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join((f"# {title}", NOTE.format(source=source), *filter(None, parts))) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "docs/events.md": ("rqueue.core.events", events),
    "docs/state-machine.md": ("rqueue.task.state", state_machine),
    "docs/keys.md": ("rqueue.store.keys", keys),
    "docs/functions.md": ("rqueue.store.assemble", functions),
    "deploy/redis/users.acl": ("rqueue.store.library", users),
    "docs/settings.md": ("rqueue.settings.load", settings),
}

if __name__ == "__main__":
    sys.exit(main())
