"""The archive's address, looked at before anything is told of it: what PostgreSQL's library cannot
read it repeats in its errors and in the pool's warnings, and that may be the password.
"""

from __future__ import annotations

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from rqueue.errors import ConfigError

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
