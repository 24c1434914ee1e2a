"""The files of the architecture tests."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "rqueue"
LUA = ROOT / "lua"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOVES = sorted(path for path in LUA.glob("*/*.lua"))
LUA_MODULES = sorted((LUA / "lib").glob("*/*.lua"))


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def for_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Makes a check of one file one test over all of them, which lists each file that fails.

    Parametrized, thousands of tests would take longer to collect and report than to run.
    """

    def over_all(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    failed.append(f"{label(path)}: {error}")
            if failed:
                pytest.fail("\n".join(failed), pytrace=False)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return over_all


@cache
def content(path: Path) -> str:
    return path.read_text("utf-8")


def length(path: Path) -> int:
    return len(content(path).splitlines())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(content(path))


def imported(path: Path) -> set[str]:
    """The top packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found
