"""Runs luacheck on every Lua file, and on the assembled library.

For single files the names of all modules are declared; the assembled library shows what is unused.
Does nothing if luacheck is not installed.
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
    """The higher of the two exit codes of luacheck."""
    program = shutil.which("luacheck")
    if program is None:
        print("luacheck is not installed: Lua is not linted", file=sys.stderr)
        return 0
    command = [program, "--quiet", "--no-cache", "--config", str(ROOT / ".luacheckrc")]
    modules = [path.stem for path in (LUA / "lib").glob("*/*.lua")]
    # Fields of a module are set in its own file; KEYS and ARGV are a move's parameters.
    names = ["--globals", *modules, "--read-globals", "KEYS", "ARGV", "--"]
    files = sorted(str(path) for path in LUA.rglob("*.lua"))
    files_run = subprocess.run([*command, *names, *files], check=False)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "library.lua"
        # The first line is not Lua: it names the library.
        whole.write_text(build(LUA).source.partition("\n")[2], "utf-8")
        # A parameter may have the name of a module that its function does not call, see
        # tests/architecture/test_lua.py; a move need not use its KEYS.
        options = ["--no-max-line-length", "--ignore", "431", "212/KEYS", "212/ARGV", "--"]
        library_run = subprocess.run([*command, *options, str(whole)], check=False)
    return max(files_run.returncode, library_run.returncode)


if __name__ == "__main__":
    sys.exit(main())
