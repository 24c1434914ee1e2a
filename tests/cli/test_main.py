"""Commands and exit codes as documented in docs/cli.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rqueue.cli import main
from rqueue.cli.main import COMMANDS, SECTIONS, cli
from rqueue.errors import (
    ConfigError,
    DagEnded,
    DagFailed,
    DagNotFound,
    FunctionsMissing,
    InvalidGraph,
    InvalidTask,
    KeyTaken,
    LeaseLost,
    Overloaded,
    ResultTimeout,
    RQueueError,
    ScriptFault,
    StoreUnavailable,
    TaskNotFound,
    WrongState,
)

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text("utf-8")


def commands(
    group: click.Group = cli, before: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yields every command with its full name."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        words = (*before, name)
        if isinstance(command, click.Group):
            yield from commands(command, words)
        else:
            yield " ".join(words), command


def part(name: str) -> str:
    """The text of docs/cli.md about a command."""
    for heading, text in re.findall(r"^### rqueue (.+)\n((?:(?!^#).*\n)+)", PAGE, re.MULTILINE):
        names = re.sub(r" (?:\[?[A-Z]|bash).*", "", heading).split(", ")
        if name in names:
            return str(text)
    return ""


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=str)
def test_each_command_and_option_is_documented(name: str, command: click.Command) -> None:
    text = part(name)
    shared = {"--queue", "--url", "--json", "--help"}

    assert text
    own = {opt for param in command.params for opt in param.opts if opt.startswith("--")}
    assert sorted(opt for opt in own - shared if not re.search(rf"{opt}\b", text)) == []


def test_every_command_has_a_help_line_and_json() -> None:
    for name, command in commands():
        assert command.get_short_help_str(), name
        # Serving commands print no result; they log.
        if name not in ("completion", "up", "worker"):
            assert any("--json" in param.opts for param in command.params), name


def test_every_command_is_in_one_section() -> None:
    assert len(COMMANDS) == sum(len(section) for section in SECTIONS.values())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TaskNotFound("t"), 1),
        (DagNotFound("d"), 1),
        (InvalidTask("type", "is wrong"), 2),
        (InvalidGraph("is a circle", ("a", "a")), 2),
        (LeaseLost("t", "1:x"), 3),
        (DagEnded("d", "completed"), 3),
        (DagFailed("d", status="failed"), 3),
        (WrongState("t", found="READY", wanted=["RUNNING"]), 3),
        (KeyTaken("t", "u"), 3),
        (ResultTimeout("t", after=1), 3),
        (Overloaded("full"), 4),
        (StoreUnavailable("x"), 4),
        (ScriptFault("task/claim", []), 4),
        (ConfigError("url", "is missing"), 5),
        (FunctionsMissing("rqueue_0", "this user may not load them"), 5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RQueueError) else str(value),
)
def test_an_error_has_the_documented_exit_code(error: RQueueError, code: int) -> None:
    assert main.code_of(error) == code
    assert f"\n| {code} | " in PAGE
