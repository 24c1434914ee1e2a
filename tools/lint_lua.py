"""Runs luacheck over every Lua file, and over the library as it is assembled.

A file by itself knows the names of all modules; the assembled library shows what is unused.
Without luacheck there is nothing to do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rqueue.store.library import build

ROOT = Path(__file__).parent.parent
LUA = ROOT / "lua"


def main() -> int:
    """The worse of luacheck's two verdicts."""
    program = shutil.which("luacheck")
    if program is None:
        print("luacheck is not installed: Lua is not linted", file=sys.stderr)
        return 0
    command = [program, "--quiet", "--no-cache", "--config", str(ROOT / ".luacheckrc")]
    modules = [path.stem for path in (LUA / "lib").glob("*/*.lua")]
    # Fields of a module are set in its own file; KEYS and ARGV are a move's parameters.
    names = ["--globals", *modules, "--read-globals", "KEYS", "ARGV", "--"]
    files = sorted(str(path) for path in LUA.rglob("*.lua"))
    apart = subprocess.run([*command, *names, *files], check=False)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "library.lua"
        # The first line is for the server alone.
        whole.write_text(build(LUA).source.partition("\n")[2], "utf-8")
        # A parameter may have the name of a module that its function does not call, see
        # tests/architecture/test_lua.py; a move need not use its KEYS.
        lenient = ["--no-max-line-length", "--ignore", "431", "212/KEYS", "212/ARGV", "--"]
        together = subprocess.run([*command, *lenient, str(whole)], check=False)
    return max(apart.returncode, together.returncode)


if __name__ == "__main__":
    sys.exit(main())
