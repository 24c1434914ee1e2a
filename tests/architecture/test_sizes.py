"""Files and functions stay small enough to read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.tree import INCLUDES, MODULES, SCRIPTS, TESTS, label, length, parsed

MODULE_LINES, TEST_LINES, FUNCTION_LINES = 300, 400, 40
SCRIPT_LINES, INCLUDE_LINES = 100, 40
# file -> why it may be longer
EXCEPTIONS: dict[str, str] = {}


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_module_is_readable(path: Path) -> None:
    assert length(path) <= MODULE_LINES or label(path) in EXCEPTIONS


@pytest.mark.parametrize("path", TESTS, ids=label)
def test_a_test_file_is_readable(path: Path) -> None:
    assert length(path) <= TEST_LINES or label(path) in EXCEPTIONS


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_function_is_readable(path: Path) -> None:
    long = [
        node.name
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
    ]

    assert long == []


@pytest.mark.parametrize("path", SCRIPTS, ids=label)
def test_a_script_is_readable(path: Path) -> None:
    assert length(path) <= SCRIPT_LINES


@pytest.mark.parametrize("path", INCLUDES, ids=label)
def test_an_include_is_readable(path: Path) -> None:
    assert length(path) <= INCLUDE_LINES


def test_every_exception_still_exists() -> None:
    assert set(EXCEPTIONS) <= {label(path) for path in [*MODULES, *TESTS]}
