"""Migrations: each is applied once; missing ones are reported."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from rqueue.archive import schema
from rqueue.archive.connection import Archive
from rqueue.archive.schema import Month, make_months, migrate_all, month_of
from rqueue.archive.writer import Batch, Writer
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from tests.archive.test_writer import ended, made_at
from tests.postgres import Database

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def tables(database: Database) -> set[object]:
    found = database.psql(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = 'rqueue' AND relkind IN ('r', 'p', 'v')"
    )
    return {name for (name,) in found}


async def test_each_migration_is_applied_once(bare_postgres: Database) -> None:
    archive = Archive(lambda: bare_postgres.url)

    first, second = await migrate_all(archive, NOW), await migrate_all(archive, NOW)

    assert [step.version for step in first] == [step.version for step in schema.migrations()]
    assert second == []
    assert {"task_lives", "task_lives_2026_11", "task_lives_2026_12", "dags"} <= tables(
        bare_postgres
    )
    await archive.aclose()


async def test_concurrent_migrations_apply_each_step_once(bare_postgres: Database) -> None:
    crew = [Archive(lambda: bare_postgres.url) for _ in range(4)]

    done = await asyncio.gather(*(migrate_all(each, NOW) for each in crew))

    assert sorted(map(len, done)) == [0, 0, 0, len(schema.migrations())]
    for each in crew:
        await each.aclose()


async def test_a_failed_migration_leaves_no_tables(
    bare_pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, broken = Archive(lambda: bare_pg.url), schema.Migration(9999, "bad", "SELECT 1 / 0")
    steps = [*schema.migrations(), broken]
    monkeypatch.setattr(schema, "migrations", lambda: steps)

    with pytest.raises(StoreUnavailable):
        await migrate_all(archive, NOW)

    assert tables(bare_pg) == set()
    await archive.aclose()


async def test_missing_tables_name_the_migrate_command(bare_pg: Database) -> None:
    archive = Archive(lambda: bare_pg.url)
    writer = Writer(archive, "q", SYSTEM)

    for call in (writer.prepare(), writer.write(Batch([ended(made_at(NOW))]))):
        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await call
    await archive.aclose()


async def test_an_unreachable_server_is_reported_within_the_timeout() -> None:
    archive = Archive(lambda: "postgresql:///x?host=/nowhere", timeout_sec=1)

    with pytest.raises(StoreUnavailable):
        await migrate_all(archive, NOW)
    await archive.aclose()


async def test_a_new_month_takes_its_rows_from_the_default_partition(bare_pg: Database) -> None:
    archive = Archive(lambda: bare_pg.url)
    await migrate_all(archive, NOW)
    writer = Writer(archive, "q", SYSTEM)
    writer.months = {"task_lives_2025_06"}
    await writer.write(Batch([ended(made_at(datetime(2025, 6, 5, tzinfo=UTC)))]))
    where = "SELECT tableoid::regclass::text FROM rqueue.task_lives"
    assert bare_pg.psql(where) == [("task_lives_other",)]

    async with archive.connection() as connection:
        await connection.set_autocommit(True)
        assert await make_months(connection, [Month(2025, 6)]) == 1
        assert await make_months(connection, [Month(2025, 6)]) == 0

    assert bare_pg.psql(where) == [("task_lives_2025_06",)]
    await archive.aclose()


def test_a_month_is_a_range_of_ids() -> None:
    last = datetime(2025, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)

    assert month_of(round(last.timestamp() * 1000), NOW) == Month(2025, 12)
    assert Month(2025, 12).next() == Month(2026, 1)
    assert (
        made_at(last).uuid
        < Month(2026, 1).first_id()
        <= made_at(datetime(2026, 1, 1, tzinfo=UTC)).uuid
    )
    assert month_of(0, NOW) is None
    assert month_of((1 << 48) - 1, NOW) is None


async def test_a_migration_splits_token_totals_by_life(
    bare_pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, steps, task = Archive(lambda: bare_pg.url), schema.migrations(), made_at(NOW)
    with monkeypatch.context() as before:
        before.setattr(schema, "migrations", lambda: steps[:4])
        await migrate_all(archive, NOW)
    for life, tokens in ((1, 10), (2, 13), (3, 20)):
        bare_pg.psql(
            "INSERT INTO rqueue.task_lives (id, life, queue, type, state, created_at, finished_at,"
            " tokens_input, tokens_output, definition, record, digest)"
            " VALUES (%s, %s, 'q', 'code', 'COMPLETED', now(), now(), %s, 1, '', '', '')",
            task.uuid, life, tokens,
        )  # fmt: skip
        bare_pg.psql(
            "INSERT INTO rqueue.agent_events (task_id, life, queue, agent, type, event, at,"
            " tokens_input) VALUES (%s, %s, 'q', 'a', 'code', 'task.completed', now(), %s)",
            task.uuid, life, tokens,
        )  # fmt: skip

    await migrate_all(archive, NOW)

    for table in ("task_lives", "life_costs", "agent_events"):
        found = bare_pg.psql(
            f"SELECT tokens_input, tokens_output FROM rqueue.{table} ORDER BY life"
        )
        assert [tokens for tokens, _ in found] == [10, 3, 7]
    await archive.aclose()


async def test_a_migration_deletes_keys_that_were_free_at_the_start(
    bare_pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, steps = Archive(lambda: bare_pg.url), schema.migrations()
    with monkeypatch.context() as before:
        before.setattr(schema, "migrations", lambda: steps[:5])
        await migrate_all(archive, NOW)
    for place, unique in enumerate(("until_start", "until_done", None)):
        bare_pg.psql(
            "INSERT INTO rqueue.task_lives (id, life, queue, type, state, created_at, finished_at,"
            " idempotency_sha, spec, definition, record, digest) VALUES (%s, 1, 'q', 'code',"
            " 'COMPLETED', now(), now(), 'cafe', jsonb_build_object('unique', %s::text), '', '',"
            " '')", made_at(NOW, place).uuid, unique,
        )  # fmt: skip

    await migrate_all(archive, NOW)

    found = bare_pg.psql("SELECT idempotency_sha FROM rqueue.task_lives ORDER BY id")
    assert found == [(None,), ("cafe",), ("cafe",)]
    await archive.aclose()


async def test_a_migration_moves_rows_from_the_default_partition(
    bare_pg: Database,
) -> None:
    archive = Archive(lambda: bare_pg.url)
    await migrate_all(archive, NOW)
    times = [datetime(year, month, 9, tzinfo=UTC) for year, month in ((2025, 3), (2025, 12))]
    far_off = [datetime(2016, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)]
    writer = Writer(archive, "q", SYSTEM)
    writer.months = {Month(at.year, at.month).table for at in times}
    tasks = [*(made_at(at) for at in [*times, *far_off]), made_at(times[0], 1)]
    await writer.write(Batch([ended(task) for task in tasks]))
    assert places(bare_pg) == {"task_lives_other": 5}

    assert await migrate_all(archive, NOW) == []

    here = {"task_lives_2025_03": 2, "task_lives_2025_12": 1, "task_lives_other": 2}
    assert places(bare_pg) == here
    await migrate_all(archive, NOW)
    assert places(bare_pg) == here
    await archive.aclose()


def places(database: Database) -> dict[object, object]:
    """Returns the number of rows of each partition."""
    found = database.psql(
        "SELECT tableoid::regclass::text, count(*) FROM rqueue.task_lives GROUP BY tableoid"
    )
    return {str(name).removeprefix("rqueue."): number for name, number in found}
