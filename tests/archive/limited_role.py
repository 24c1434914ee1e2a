"""A database role with exactly the rights that the guide lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import Database

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "archive-upkeep.md"
GRANTS = re.compile(r"^GRANT .*;$", re.MULTILINE)
# Roles belong to the server, so each database has its own role.
ROLE = "writer_of_{}"


@contextmanager
def limited_role(database: Database) -> Iterator[str]:
    """Yields the URL of such a role. It has rights on the tables that exist now."""
    role = ROLE.format(database.name)
    database.psql(f"CREATE ROLE {role} LOGIN")
    try:
        for statement in GRANTS.findall(GUIDE.read_text("utf-8")):
            database.psql(statement.replace("archiver", role))
        yield f"postgresql://{role}@{database.url.partition('@')[2]}"
    finally:
        database.psql(f"DROP OWNED BY {role}")
        database.psql(f"DROP ROLE {role}")
