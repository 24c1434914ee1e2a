"""The guide about extending: applied to a copy of the sources, which then passes lint and tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "guides" / "extending.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+) (new )?(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW = {name: text for _, new, name, text in BLOCK.findall(PAGE) if new}
CHANGES = [(name, text) for kind, _, name, text in BLOCK.findall(PAGE) if kind == "diff"]
PYTHON = sorted(name for name in {*NEW, *dict(CHANGES)} if name.endswith(".py"))
GATES = "lua/lib/limits/gates.lua"
TESTS = "tests/limits/test_hours.py"
# The tests that list moves, keys, calls, files or pages.
LISTING = (
    "tests/architecture/test_layout.py",
    "tests/architecture/test_lua.py",
    "tests/architecture/test_pages.py",
    "tests/architecture/test_sizes.py",
    "tests/deploy/test_access.py::test_every_move_is_called_by_some_role",
    "tests/integration/test_lost_reply.py::test_every_script_that_writes_has_a_case",
    "tests/queue/test_face.py",
    "tests/reference/queue/test_model_server.py",
)
LINT = (
    ("-m", "ruff", "format", "--check", *PYTHON),
    ("-m", "ruff", "check", *PYTHON),
    ("-m", "tools.lint_lua"),
    ("-c", "from importlinter.cli import lint_imports_command as lint; lint()"),
)


def changed(text: str, diff: str) -> str:
    """A file with a change of the page: its old lines must occur once."""
    lines = [(line[0], line[1:]) for line in diff.splitlines()]
    old = "".join(f"{line}\n" for mark, line in lines if mark != "+")
    new = "".join(f"{line}\n" for mark, line in lines if mark != "-")
    assert text.count(old) == 1, f"the page changes what is not there: {old}"
    return text.replace(old, new)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the changes of the page and regenerated pages."""
    tree = tmp_path_factory.mktemp("extended") / "rqueue"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "_library.lua"))
    shutil.copy(ROOT / ".luacheckrc", tree)
    for name, text in NEW.items():
        path = tree / name
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name, diff in CHANGES:
        path = tree / name
        path.write_text(changed(path.read_text("utf-8"), diff), "utf-8")
    made = run(tree, "-m", "tools.generate_docs")
    assert made.returncode == 0, made.stdout
    return tree


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a tree, on the modules of that tree."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree, env={**others, "PYTHONPATH": str(tree)}, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run_tests(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs tests of a tree on the embedded Valkey."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--servers", "valkey")
    return run(tree, "-m", "pytest", *options, *words)


def test_the_page_contains_all_files_of_a_gate() -> None:
    assert set(NEW) == {
        "lua/lib/limits/hours.lua", "lua/hours/set.lua", "rqueue/limits/hours.py", TESTS,
        "tests/lua/hours/test_set.py",
    }  # fmt: skip
    assert set(dict(CHANGES)) >= {GATES, "lua/lib/claim/take.lua", "rqueue/store/keys.py"}


def test_the_tests_of_the_page_pass(tree: Path) -> None:
    found = run_tests(tree, TESTS, "tests/lua/hours", "tests/lua/test_late_copies.py")

    assert found.returncode == 0, found.stdout


def test_the_tests_that_list_moves_and_calls_pass_on_the_changed_tree(tree: Path) -> None:
    found = run_tests(tree, *LISTING)

    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("words", LINT, ids=["format", "ruff", "lua", "imports"])
def test_the_changed_tree_passes_lint(tree: Path, words: tuple[str, ...]) -> None:
    found = run(tree, *words)

    assert found.returncode == 0, found.stdout


def test_the_tests_of_the_page_fail_without_the_gate_in_the_claim(tree: Path) -> None:
    with_gate = (tree / GATES).read_text("utf-8")
    shutil.copy(ROOT / GATES, tree / GATES)
    try:
        found = run_tests(tree, TESTS, "-k", "outside_the_hours")
    finally:
        (tree / GATES).write_text(with_gate, "utf-8")

    assert found.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in found.stdout
