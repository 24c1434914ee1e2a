"""The line to PostgreSQL: what is asked over it is answered in time, or it is cut.

psycopg ends a call that was cancelled when the server has answered once more, and a server that is
frozen, or whose machine is gone, does not. So a limit is no cancellation: it shuts the socket, and
whoever waits at it finds its end.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from rqueue.archive.faults import translated
from rqueue.errors import StoreUnavailable

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
