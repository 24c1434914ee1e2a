"""Layout: generated pages, imports, file names, docstrings and public names."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from tests.architecture.tree import (
    LUA,
    MODULES,
    PACKAGE,
    ROOT,
    TESTS,
    content,
    for_each,
    imported,
    label,
    parsed,
)
from tools.generate_docs import stale_pages

BANNED_IN_NAMES = {"job", "jobs", "dlq", "utils", "helpers", "common", "base", "manager", "misc"}
BANNED_WORDS = re.compile(r"\b(job|jobs|dlq|mutex|heartbeats? lock)\b", re.IGNORECASE)
# Names of documents, forms or other systems.
FOREIGN_WORDS = {"rqueue/task/forms", "rqueue/cli/dead/report.py"}
KEY_LITERAL = re.compile(r"rq:\{|\}:[a-z…]|(?:^|[:…])(?:task|lane|def|waits|idem|mail|dag):(?:…|$)")
EXPORTS = {
    "Artifact", "Call", "Context", "Dag", "DagHandle", "DagId", "DagStatus", "Handle", "Lease",
    "Middleware", "Outcome", "Plan", "Queue", "RQueueError", "RateLimited", "Reject", "Retry",
    "RetryPolicy", "Settings", "State", "Task", "TaskId", "depends", "previous",
}  # fmt: skip


def test_generated_pages_are_up_to_date() -> None:
    assert [label(path) for path in stale_pages()] == []


@for_each(MODULES)
def test_only_the_store_imports_redis(path: Path) -> None:
    if path.is_relative_to(PACKAGE / "store"):
        return

    assert not imported(path) & {"redis", "valkey", "hiredis"}


@for_each(MODULES)
def test_only_one_module_builds_redis_keys(path: Path) -> None:
    if label(path) == "rqueue/store/keys.py":
        return

    found = [text for text in literals(path) if KEY_LITERAL.search(text)]

    assert found == []


@for_each([*MODULES, *TESTS, *LUA.rglob("*.lua")])
def test_file_names_have_no_unused_words(path: Path) -> None:
    words = set(path.stem.removeprefix("test_").lower().split("_"))

    assert not words & BANNED_IN_NAMES


@for_each([*MODULES, *LUA.rglob("*.lua")])
def test_files_have_no_unused_words(path: Path) -> None:
    if any(label(path).startswith(folder) for folder in FOREIGN_WORDS):
        return

    assert BANNED_WORDS.findall(content(path)) == []


@for_each(MODULES)
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


def test_the_package_exports_only_the_listed_names() -> None:
    package = importlib.import_module("rqueue")
    names = list(getattr(package, "__all__", []))

    assert names == sorted(names)
    assert set(names) == EXPORTS
    assert all(hasattr(package, name) for name in names)


def test_no_file_contains_a_path_of_a_machine() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *MODULES, ROOT / "pyproject.toml"]
    path_of_someone = re.compile(r"(?<![\w.])/(?:root|home|Users)/\w")

    assert [label(path) for path in pages if path_of_someone.search(content(path))] == []


def literals(path: Path) -> list[str]:
    """Every string of a module except for docstrings, with a `…` for the values of f-strings."""
    found: list[str] = []
    tree = parsed(path)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            found.append("".join(str(part) for part in parts))
    return found
