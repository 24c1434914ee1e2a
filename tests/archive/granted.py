"""A role that has the rights which the guide says are enough, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import Database

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "archive-upkeep.md"
GRANTS = re.compile(r"^GRANT .*;$", re.MULTILINE)
# Roles belong to the server: each database has one of its own.
ROLE = "writer_of_{}"


@contextmanager
def granted(database: Database) -> Iterator[str]:
    """The URL of such a role; it has rights on the tables that are there now."""
    role = ROLE.format(database.name)
    database.psql(f"CREATE ROLE {role} LOGIN")
    try:
        for statement in GRANTS.findall(GUIDE.read_text("utf-8")):
            database.psql(statement.replace("archiver", role))
        yield f"postgresql://{role}@{database.url.partition('@')[2]}"
    finally:
        database.psql(f"DROP OWNED BY {role}")
        database.psql(f"DROP ROLE {role}")
