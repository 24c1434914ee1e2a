"""Files and functions are short."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.tree import (
    LUA_MODULES,
    MODULES,
    MOVES,
    TESTS,
    for_each,
    label,
    length,
    parsed,
)

MODULE_LINES, TEST_LINES, FUNCTION_LINES = 500, 400, 40
MOVE_LINES, LUA_MODULE_LINES = 120, 350
FOLDER_FILES = 16
# file or folder -> why it may be larger
EXCEPTIONS: dict[str, str] = {
    "rqueue/errors.py": "the whole tree of errors, drawn at its top",
}


@for_each(MODULES)
def test_a_module_has_at_most_500_lines(path: Path) -> None:
    assert length(path) <= MODULE_LINES or label(path) in EXCEPTIONS


@for_each(sorted({path.parent for path in MODULES}))
def test_a_folder_has_few_modules(path: Path) -> None:
    """`__init__` is not counted as one of the 15 modules."""
    assert len(list(path.glob("*.py"))) <= FOLDER_FILES or label(path) in EXCEPTIONS


@for_each(TESTS)
def test_a_test_file_has_at_most_400_lines(path: Path) -> None:
    assert length(path) <= TEST_LINES or label(path) in EXCEPTIONS


@for_each(MODULES)
def test_a_function_has_at_most_40_lines(path: Path) -> None:
    long = [
        node.name
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
    ]

    assert long == []


@for_each(MOVES)
def test_a_move_has_at_most_120_lines(path: Path) -> None:
    assert length(path) <= MOVE_LINES


@for_each(LUA_MODULES)
def test_a_lua_module_has_at_most_350_lines(path: Path) -> None:
    assert length(path) <= LUA_MODULE_LINES


def test_every_exception_still_exists() -> None:
    assert set(EXCEPTIONS) <= {
        label(path) for path in [*MODULES, *TESTS, *(path.parent for path in MODULES)]
    }
