"""Runs luacheck over every script as the server sees it: includes pasted in, no first line.

Without luacheck, or before there is a loader, there is nothing to do.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def main() -> int:
    """luacheck's own verdict."""
    program = shutil.which("luacheck")
    if program is None:
        print("luacheck is not installed: Lua is not linted", file=sys.stderr)
        return 0
    if importlib.util.find_spec("rqueue.store.scripts") is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        assemble(Path(folder))
        command = [program, "--quiet", "--no-cache", "--config", str(ROOT / ".luacheckrc"), "."]
        return subprocess.run(command, cwd=folder, check=False).returncode


def assemble(target: Path) -> None:
    """Every script, whole, under its name."""
    scripts: Any = importlib.import_module("rqueue.store.scripts")
    folder = scripts.folder()
    for name in scripts.names(folder):
        path = target / f"{name}.lua"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scripts.load(name, folder, strict=False).source, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
