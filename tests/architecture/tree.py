"""What the architecture tests walk over."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "rqueue"
LUA = ROOT / "lua"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOVES = sorted(path for path in LUA.glob("*/*.lua"))
LUA_MODULES = sorted((LUA / "lib").glob("*/*.lua"))


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def length(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> set[str]:
    """The top packages a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found
