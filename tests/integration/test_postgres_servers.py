"""The servers of the archive's tests have the properties of their fixtures."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from tests.postgres import Database, Disk


def test_a_new_database_is_empty_with_the_schema_first_in_its_search_path(
    postgres: Database, pg: Database
) -> None:
    for one in (postgres, pg):
        found = one.psql("SELECT current_setting('search_path'), count(*) FROM pg_stat_user_tables")

        assert found == [("rqueue, public", 0)]
        one.psql("CREATE TABLE kept (x int)")
    assert postgres.url != pg.url


def test_a_server_has_the_requested_version(postgres: Database, postgres_kind: str) -> None:
    number = int(str(postgres.psql("SHOW server_version_num")[0][0]))

    assert (number // 10_000 == 15) == (postgres_kind == "debian")


def test_an_own_server_keeps_its_data_through_restarts_and_kills(own_pg: Database) -> None:
    own_pg.psql("CREATE TABLE kept AS SELECT 1 AS x")

    own_pg.kill()
    with pytest.raises(psycopg.OperationalError):
        own_pg.psql("SELECT 1")
    own_pg.start()
    own_pg.restart()

    assert own_pg.psql("SELECT x FROM kept") == [(1,)]


def test_a_server_can_be_read_only(own_pg: Database) -> None:
    own_pg.psql("CREATE TABLE kept (x int)")

    own_pg.set_read_only(True)
    with pytest.raises(errors.ReadOnlySqlTransaction):
        own_pg.psql("INSERT INTO kept VALUES (1)")
    own_pg.set_read_only(False)
    own_pg.psql("INSERT INTO kept VALUES (2)")

    assert own_pg.psql("SELECT x FROM kept") == [(2,)]


def test_a_connection_can_be_cut(own_pg: Database) -> None:
    with own_pg.connect() as line:
        line.execute("SELECT 1")

        own_pg.drop_connections()

        with pytest.raises(psycopg.OperationalError):
            line.execute("SELECT 1")


def test_a_disk_can_be_full(full_pg: tuple[Database, Disk]) -> None:
    database, disk = full_pg
    database.psql("CREATE TABLE kept (x text)")

    disk.fill()
    with pytest.raises(errors.DiskFull):
        database.psql(
            "INSERT INTO kept SELECT repeat(md5(i::text), 10) FROM generate_series(1, 5000) i"
        )
    disk.free()
    database.psql("INSERT INTO kept VALUES ('room')")

    assert database.psql("SELECT x FROM kept") == [("room",)]
