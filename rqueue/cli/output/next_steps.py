"""The next steps after the demo: commands that work as printed, in the same directory."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

STEPS = (
    ("count the tasks by type and state", "counts"),
    ("list the dead tasks", "tasks --status DEAD_LETTERED"),
    (
        "enqueue one more task for the next worker",
        """enqueue charge '{"order": 1, "cents": 999}'""",
    ),
    ("show a live view, in a terminal next to a worker", "top"),
    ("list the queues on the server", "queues"),
)
KEPT = "Ended tasks are kept in PostgreSQL: {folder}, which runs while a process here uses it."
AFTER = """
Your own tasks: docs/guides/tasks.md, and docs/guides/workers.md for the handlers;
then `{program} up MODULE:QUEUE` in place of the demo. All commands: docs/cli.md.
"""


def steps(queue: str, *, embedded: bool, archive: str | Path | None) -> str:
    """The text. `embedded`: this run chose the embedded server because none was configured."""
    before = f"{'RQUEUE_EMBEDDED=1 ' if embedded else ''}{program()}"
    lines = ["", "next steps, in this directory:"]
    for what, command in STEPS:
        lines += [f"  {what}", f"    {before} {command} --queue {queue}"]
    if isinstance(archive, Path):
        lines += ["", KEPT.format(folder=archive / "postgres")]
    return "\n".join([*lines, AFTER.format(program=program())])


def program() -> str:
    """The command that starts this program in a shell."""
    started = Path(sys.argv[0])
    if started.suffix == ".py":
        return f"{shell_path(sys.executable)} -m rqueue"
    found = shutil.which(started.name)
    if found is not None and Path(found).absolute() == started.absolute():
        return started.name
    return shell_path(sys.argv[0])


def shell_path(path: str) -> str:
    """The shortest path from the working directory, quoted for a shell."""
    # Not resolved: the interpreter finds its virtual environment by the link.
    here = os.path.relpath(path)
    short = str(Path(path).absolute()) if here.startswith(os.pardir) else here
    return shlex.quote(short if os.sep in short else os.path.join(os.curdir, short))
