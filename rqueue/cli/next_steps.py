"""What to type next: commands that work as they are printed, where they are printed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

STEPS = (
    ("how many tasks there are, by type and state", "counts"),
    ("those that no further attempt could mend", "tasks --status DEAD_LETTERED"),
    ("one more task; the next worker runs it", """enqueue charge '{"order": 1, "cents": 999}'"""),
    ("all of it live, in a terminal beside a worker", "top"),
    ("which queues the server has", "queues"),
)
KEPT = "What has ended is kept in PostgreSQL: {folder}, which runs while a process here uses it."
AFTER = """
Your own tasks: docs/guides/tasks.md, and docs/guides/workers.md for the handlers;
then `{program} up MODULE:QUEUE` in place of the demo. All commands: docs/cli.md.
"""


def steps(queue: str, *, embedded: bool, archive: str | Path | None) -> str:
    """The text; `embedded` where only our own choice of the server, made for this run, holds."""
    before = f"{'RQUEUE_EMBEDDED=1 ' if embedded else ''}{program()}"
    lines = ["", "what to do next, in this directory:"]
    for what, command in STEPS:
        lines += [f"  {what}", f"    {before} {command} --queue {queue}"]
    if isinstance(archive, Path):
        lines += ["", KEPT.format(folder=archive / "postgres")]
    return "\n".join([*lines, AFTER.format(program=program())])


def program() -> str:
    """How a shell starts this program again."""
    started = Path(sys.argv[0])
    if started.suffix == ".py":
        return f"{near(sys.executable)} -m rqueue"
    found = shutil.which(started.name)
    if found is not None and Path(found).absolute() == started.absolute():
        return started.name
    return near(sys.argv[0])


def near(path: str) -> str:
    """A path as short as it can be from here, for a shell."""
    # Not resolved: a link into an environment is what makes it that environment.
    here = os.path.relpath(path)
    short = str(Path(path).absolute()) if here.startswith(os.pardir) else here
    return shlex.quote(short if os.sep in short else os.path.join(os.curdir, short))
