"""The guide about extending: applied to a copy of the sources, loaded, and its tests run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue.runtime import assemble
from rqueue.settings.load import Settings
from rqueue.store.connection import Connection
from rqueue.store.library import build
from rqueue.store.runner import Runner
from tests import harness as harnesses
from tests.architecture.tree import ROOT
from tests.harness import Harness

PAGE = (ROOT / "docs" / "guides" / "extending.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+) (new )?(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW = {name: text for _, new, name, text in BLOCK.findall(PAGE) if new}
CHANGED = {name: text for kind, _, name, text in BLOCK.findall(PAGE) if kind == "diff"}
TESTS = "tests/hours/test_admin.py"

Test = Callable[[Harness], Awaitable[None]]


def changed(text: str, diff: str) -> str:
    """A file with a change of the page: its old lines must occur once."""
    lines = [(line[0], line[1:]) for line in diff.splitlines()]
    old = "".join(f"{line}\n" for mark, line in lines if mark != "+")
    new = "".join(f"{line}\n" for mark, line in lines if mark != "-")
    assert text.count(old) == 1, f"the page changes what is not there: {old}"
    return text.replace(old, new)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources with the changes of the page."""
    for folder in ("lua", "rqueue/store"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name, text in NEW.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name, diff in CHANGED.items():
        path = tmp_path / name
        path.write_text(changed(path.read_text("utf-8"), diff), "utf-8")
    return tmp_path


def extended(tree: Path, connection: Connection, client: aredis.Redis) -> Harness:
    """A queue on the library of changed sources."""
    with pytest.MonkeyPatch.context() as patched:

        def assembled(settings: Settings, connection: Connection) -> Any:
            return assemble(settings, connection, runner=Runner(connection, build(tree / "lua")))

        patched.setattr(harnesses, "assemble", assembled)
        return harnesses.build(connection, client)


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A Python file of the page, imported under its own name."""
    dotted = name.removesuffix(".py").replace("/", ".")
    made = ModuleType(dotted)
    monkeypatch.setitem(sys.modules, dotted, made)
    exec(compile(NEW[name], name, "exec"), vars(made))
    return made


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> dict[str, Test]:
    """The tests of the page, by name."""
    module("rqueue/hours/admin.py", monkeypatch)
    found = vars(module(TESTS, monkeypatch)).items()
    return {name: test for name, test in found if name.startswith("test_")}


def test_the_page_contains_all_files_of_a_gate() -> None:
    assert set(NEW) == {
        "lua/lib/limits/hours.lua", "lua/hours/set.lua", "rqueue/hours/admin.py", TESTS,
    }  # fmt: skip
    assert set(CHANGED) == {
        "lua/lib/limits/gates.lua", "lua/lib/claim/take.lua", "rqueue/store/keys.py",
    }  # fmt: skip


def test_the_changed_key_catalogue_is_python(tree: Path) -> None:
    text = (tree / "rqueue" / "store" / "keys.py").read_text("utf-8")

    assert "def hours(self, type: str) -> str:" in text
    compile(text, "keys.py", "exec")


async def test_the_tests_of_the_page_pass(
    tree: Path, connection: Connection, client: aredis.Redis, tests: dict[str, Test]
) -> None:
    for test in tests.values():
        await client.flushall()
        # A new queue: lanes of two databases created in the same millisecond have the same version.
        harness = extended(tree, connection, client)
        await test(harness)
        await harness.queue.aclose()

    assert len(tests) >= 4


async def test_the_tests_of_the_page_fail_without_the_gate_in_the_claim(
    tree: Path, connection: Connection, client: aredis.Redis, tests: dict[str, Test]
) -> None:
    shutil.copy(ROOT / "lua" / "lib" / "limits" / "gates.lua", tree / "lua" / "lib" / "limits")
    harness = extended(tree, connection, client)

    with pytest.raises(AssertionError):
        await tests["test_nothing_is_handed_out_outside_the_hours"](harness)

    await harness.queue.aclose()
