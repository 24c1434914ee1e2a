"""The archive's address, looked at before anything is told of it: what PostgreSQL's library cannot
read it repeats in its errors and in the pool's warnings, and that may be the password.
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
    "is no address of a PostgreSQL (postgresql://user@host/database); what a password has of"
    " % / @ : ? # is written as %25, %2F and so on, or the password goes into PGPASSWORD"
)


def check(url: str) -> None:
    """Raises ConfigError, which repeats nothing, where an address is not what was meant."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        # Not `from`: the cause would be printed with its text.
        raise ConfigError("postgres_url", RULE) from None
    ports = str(parts.get("port") or "").split(",")
    if is_torn(url) or not all(port.isdecimal() for port in ports if port):
        raise ConfigError("postgres_url", RULE)


def is_torn(url: str) -> bool:
    """Whether a password was taken for more than it is: its @ ends it, its / ends the host. The
    rest of it is then a host or a database, which errors name.
    """
    rest = url.partition("://")[2]
    login, _, after = rest.partition("@")
    read = rest if "/" in login else after
    return "@" in read.partition("?")[0]


# Classes of SQLSTATE that speak of a row: its data, a constraint, a limit that it is beyond.
OF_A_ROW = ("22", "23", "54")
NO_TABLE, NO_SCHEMA, NO_COLUMN, NO_FUNCTION = "42P01", "3F000", "42703", "42883"
NO_RIGHT = "42501"


def speaks_of_a_row(error: psycopg.Error) -> bool:
    """Whether another row might be taken where this one is refused."""
    return (error.sqlstate or "")[:2] in OF_A_ROW


def translate(error: psycopg.Error | PoolTimeout) -> RQueueError:
    """What an error means. Its text is not repeated: it may hold what a row held."""
    state = getattr(error, "sqlstate", None)
    if state in (NO_TABLE, NO_SCHEMA, NO_COLUMN, NO_FUNCTION):
        return ConfigError(
            "archive", "has not the tables of this release: run `rqueue archive migrate`"
        )
    if state == NO_RIGHT:
        return ConfigError("postgres_url", "names a role that may not do this")
    what = f"PostgreSQL {type(error).__name__}" + (f" ({state})" if state else "")
    return StoreUnavailable(what)


@contextmanager
def translated() -> Iterator[None]:
    """What psycopg raises inside leaves as an error of ours."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error) from error


# A machine that is gone answers no probe: found out after half a minute, whoever waits.
PROBED = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# How long a server that is asked to stop a statement may take to hear of it.
CANCEL_SEC = 1.0


class Wire(AsyncConnection[Any]):
    """A connection that can be given up from outside, whatever waits at it."""

    is_given_up = False

    def give_up(self) -> None:
        """Ends it for who waits at it, without a word from the other side."""
        self.is_given_up = True
        if self.closed:
            return
        # Shut, not closed: the number of a file that is closed may be another's at once.
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    async def cancel_safe(self, *, timeout: float = CANCEL_SEC) -> None:  # noqa: ASYNC109 (psycopg's name)
        """Asks the server to stop, and hears no more of it: who cancels a call waits for nobody."""
        try:
            await super().cancel_safe(timeout=min(timeout, CANCEL_SEC))
        finally:
            self.give_up()


@contextmanager
def limited(wire: Wire, limit_sec: float | None) -> Iterator[None]:
    """What is asked inside is answered within a time, or raises StoreUnavailable."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    loop = asyncio.get_running_loop()
    timer = None if limit_sec is None else loop.call_later(limit_sec, wire.give_up)
    try:
        yield
    except psycopg.Error as error:
        if task and task.cancelling() > before:
            # What was cut because its call was cancelled is no fault of a server.
            raise asyncio.CancelledError from error
        if wire.is_given_up:
            raise StoreUnavailable(f"PostgreSQL was silent for {limit_sec:g} s") from error
        raise
    finally:
        if timer is not None:
            timer.cancel()


def probing(url: str) -> dict[str, int]:
    """How a line is probed, in all that its URL does not say itself."""
    with translated():
        said = conninfo_to_dict(url)
    return {name: value for name, value in PROBED.items() if name not in said}
