"""PostgreSQL's errors, turned into ours at the door: no exception of psycopg leaves this room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout

from rqueue.errors import ConfigError, RQueueError, StoreUnavailable

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
