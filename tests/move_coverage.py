"""Records which moves are called on each kind of server: with `--every-move` the run fails if one
is missing.

All tests run on the embedded Valkey, those of single moves on the other kinds as well.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rqueue.store.connection import Connection
from rqueue.store.library import library
from tests.architecture.tree import LUA, ROOT
from tests.servers import KINDS

OF_MOVES = ROOT / "tests" / "lua"


def tests_a_move(path: Path) -> bool:
    """Whether a file is `tests/lua/<noun>/test_<verb>.py` of a `lua/<noun>/<verb>.lua`."""
    verb = f"{path.stem.removeprefix('test_')}.lua"
    return path.parent.parent == OF_MOVES and (LUA / path.parent.name / verb).exists()


class MoveCoverage:
    """Records the moves that were called on each kind of server, in all processes of a run."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()
        self.kind = ""

    def pytest_sessionstart(self) -> None:
        """Makes connections record their calls, for as long as this process lives."""
        for name in ("call", "execute", "execute_together", "execute_one"):
            setattr(Connection, name, self.noting(getattr(Connection, name)))

    def noting(self, plain: Any) -> Any:
        """A method of Connection that records its calls."""

        def method(connection: Connection, *args: Any, what: str = "redis", **options: Any) -> Any:
            self.called.add((self.kind, what))
            return plain(connection, *args, what=what, **options)

        return method

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        call = getattr(item, "callspec", None)
        self.kind = call.params.get("server_kind", KINDS[0]) if call else KINDS[0]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds the records of an xdist worker."""
        self.called |= {tuple(one) for one in getattr(node, "workeroutput", {}).get("called", ())}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["called"] = sorted(self.called)
        elif session.exitstatus == pytest.ExitCode.OK and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for one in self.missing():
            terminalreporter.write_line(f"no test has called {one}", red=True)

    def missing(self) -> list[str]:
        """The moves that no test has called, on the installed servers."""
        here = [kind for kind in KINDS if kind != "redis7" or shutil.which("redis-server")]
        wanted = {(kind, move) for kind in here for move in library().moves}
        return [f"{move} on {kind}" for kind, move in sorted(wanted - self.called)]
