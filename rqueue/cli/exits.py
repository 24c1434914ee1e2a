"""Exit codes: what a script may rely on, see docs/cli.md."""

from __future__ import annotations

import click

from rqueue.cli.output import note
from rqueue.errors import (
    ArtifactNotFound,
    ArtifactRefused,
    ConfigError,
    DagNotFound,
    Forbidden,
    Overloaded,
    RQueueError,
    StoreError,
    SubmitError,
    TaskError,
    TaskNotFound,
    WorkerNotFound,
)

NOTHING = 1
USAGE = 2
STATE = 3
SERVER = 4
CONFIG = 5
INTERRUPTED = 130
TERMINATED = 143

# The first that fits decides.
CODES: tuple[tuple[type[RQueueError], int], ...] = (
    (TaskNotFound, NOTHING),
    (DagNotFound, NOTHING),
    (WorkerNotFound, NOTHING),
    (ArtifactNotFound, NOTHING),
    (ArtifactRefused, USAGE),
    (TaskError, STATE),
    (Forbidden, STATE),
    (Overloaded, SERVER),
    (StoreError, SERVER),
    (ConfigError, CONFIG),
    (SubmitError, USAGE),
    (RQueueError, STATE),
)


def refused(error: RQueueError) -> click.exceptions.Exit:
    """The end of a command that met an error of ours: one line, no traceback, its exit code."""
    note(str(error))
    return click.exceptions.Exit(code_of(error))


def code_of(error: RQueueError) -> int:
    """The exit code of an error."""
    return next(code for kind, code in CODES if isinstance(error, kind))


def nothing() -> click.exceptions.Exit:
    """The end of a command that found nothing; its reader has been told."""
    return click.exceptions.Exit(NOTHING)
