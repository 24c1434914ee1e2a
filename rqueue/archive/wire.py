"""Connections to PostgreSQL: the check of the URL, timeouts, and the translation of errors.

The URL is checked before it is used: libpq repeats what it cannot parse in its errors, and the pool
in its warnings, and that may be the password.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolTimeout

from rqueue.errors import ConfigError, RQueueError, StoreUnavailable

RULE = (
    "is not a PostgreSQL URL (postgresql://user@host/database); in a password, write"
    " % / @ : ? # as %25, %2F and so on, or set the password in PGPASSWORD"
)


def check(url: str) -> None:
    """Raises ConfigError for an invalid URL. The error does not contain any part of the URL."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        # `from None`: a traceback would print the cause, which contains the URL.
        raise ConfigError("postgres_url", RULE) from None
    ports = str(parts.get("port") or "").split(",")
    if has_split_password(url) or not all(port.isdecimal() for port in ports if port):
        raise ConfigError("postgres_url", RULE)


def has_split_password(url: str) -> bool:
    """Returns whether the URL was split inside the password, at an unescaped @ or /. The rest of
    the password would then be a host or a database name, which errors contain.
    """
    rest = url.partition("://")[2]
    login, _, after = rest.partition("@")
    read = rest if "/" in login else after
    return "@" in read.partition("?")[0]


# Classes of SQLSTATE that concern one row: invalid data, a constraint, an exceeded limit.
OF_A_ROW = ("22", "23", "54")
NO_TABLE, NO_SCHEMA, NO_COLUMN, NO_FUNCTION = "42P01", "3F000", "42703", "42883"
NO_RIGHT = "42501"


def is_row_error(error: psycopg.Error) -> bool:
    """Returns whether PostgreSQL refused a row because of its content, so that other rows may be
    accepted.
    """
    return (error.sqlstate or "")[:2] in OF_A_ROW


def translate(error: psycopg.Error | PoolTimeout) -> RQueueError:
    """Returns the RQueueError for an error of psycopg. It does not contain the text of the error,
    which may contain data of a row.
    """
    state = getattr(error, "sqlstate", None)
    if state in (NO_TABLE, NO_SCHEMA, NO_COLUMN, NO_FUNCTION):
        return ConfigError("archive", "lacks tables of this release: run `rqueue archive migrate`")
    if state == NO_RIGHT:
        return ConfigError("postgres_url", "names a role that lacks a required permission")
    what = f"PostgreSQL {type(error).__name__}" + (f" ({state})" if state else "")
    return StoreUnavailable(what)


@contextmanager
def translated() -> Iterator[None]:
    """Translates errors of psycopg that are raised inside to RQueueErrors."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error) from error


# TCP probes: a machine that no longer answers is detected after half a minute.
PROBED = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# Timeout of the request to the server to cancel a statement.
CANCEL_SEC = 1.0


class Wire(AsyncConnection[Any]):
    """A connection that can be aborted from outside while a call waits for it."""

    is_aborted = False

    def abort(self) -> None:
        """Shuts the socket down, which ends a waiting call. A second call has no effect."""
        self.is_aborted = True
        if self.closed:
            return
        # Shut down, not closed: the descriptor of a closed file may be reused immediately.
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    async def cancel_safe(self, *, timeout: float = CANCEL_SEC) -> None:  # noqa: ASYNC109 (psycopg's name)
        """Asks the server to cancel the statement and aborts the connection, so that cancelling a
        call takes at most CANCEL_SEC.
        """
        try:
            await super().cancel_safe(timeout=min(timeout, CANCEL_SEC))
        finally:
            self.abort()


@contextmanager
def limited(wire: Wire, limit_sec: float | None) -> Iterator[None]:
    """Limits the calls inside to a time; raises StoreUnavailable after it. None for no limit."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    loop = asyncio.get_running_loop()
    timer = None if limit_sec is None else loop.call_later(limit_sec, wire.abort)
    try:
        yield
    except psycopg.Error as error:
        if task and task.cancelling() > before:
            # The error is the effect of a cancellation, not of a failed server.
            raise asyncio.CancelledError from error
        if wire.is_aborted:
            raise StoreUnavailable(f"PostgreSQL within {limit_sec:g} s") from error
        raise
    finally:
        if timer is not None:
            timer.cancel()


def probe_options(url: str) -> dict[str, int]:
    """Returns the options for TCP probes that the URL does not set itself."""
    with translated():
        given = conninfo_to_dict(url)
    return {name: value for name, value in PROBED.items() if name not in given}
