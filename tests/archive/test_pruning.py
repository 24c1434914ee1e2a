"""Retention: rows are deleted when their days are over, and no others."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from rqueue.archive import schema
from rqueue.archive.connection import Archive
from rqueue.archive.maintenance import retention
from rqueue.archive.maintenance.retention import Pruned, Pruning, Retention
from rqueue.archive.schema import Month, make_months
from rqueue.errors import StoreUnavailable
from rqueue.task.ids import TaskId
from tests.archive.limited_role import limited_role
from tests.archive.tables import NOON, QUEUE, ArchiveTables
from tests.archive.tables import opened as open_archive
from tests.postgres import Database

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
ALL = Retention(completed_days=10, cancelled_days=10, dead_days=10, agent_event_days=10,
                metrics_minute_days=10)  # fmt: skip
EDGE = NOON - 10 * DAY


async def pruned(tables: ArchiveTables, policy: Retention = ALL, now: datetime = NOON) -> Pruned:
    return await Pruning(tables.archive, QUEUE, policy, now=now).prune()


async def test_by_default_nothing_is_deleted(tables: ArchiveTables) -> None:
    tables.life(NOON - 3000 * DAY)
    tables.life(NOON - 3000 * DAY, "CANCELLED")

    done = await pruned(tables, Retention())

    assert done.completed + done.cancelled + done.dead == 0
    assert len(tables.lives()) == 2


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED"])
async def test_a_row_is_deleted_when_its_days_are_over(tables: ArchiveTables, state: str) -> None:
    tables.life(EDGE - SECOND, state)
    stays = tables.life(EDGE, state)
    tables.life(EDGE - SECOND, state, queue="other")

    await pruned(tables)

    assert (stays, 1) in tables.lives()
    assert len(tables.lives()) == 2


async def test_each_state_has_its_own_days(tables: ArchiveTables) -> None:
    old = NOON - 100 * DAY
    completed, cancelled = tables.life(old), tables.life(old, "CANCELLED")

    await pruned(tables, Retention(cancelled_days=1))
    assert tables.lives() == {(completed, 1)}

    await pruned(tables, Retention(completed_days=1))
    assert tables.lives() == set()
    assert cancelled != completed


async def test_a_row_stays_while_its_idempotency_key_is_valid(tables: ArchiveTables) -> None:
    stays, goes = tables.life(NOON - 20 * DAY), tables.life(NOON - 20 * DAY - SECOND)
    tables.database.psql("UPDATE rqueue.task_lives SET idempotency_sha = 'x'")
    plain = tables.life(NOON - 20 * DAY)

    await Pruning(tables.archive, QUEUE, ALL, now=NOON, window=20 * DAY).prune()

    assert tables.lives() == {(stays, 1)}
    assert goes != plain


async def test_dead_tasks_stay_until_they_are_resolved(tables: ArchiveTables) -> None:
    old = NOON - 1000 * DAY
    dead = tables.life(old, "DEAD_LETTERED")
    tables.life(old, "CANCELLED", discarded=EDGE - SECOND)
    lately = tables.life(old, "CANCELLED", discarded=EDGE)

    done = await pruned(tables)

    assert tables.lives() == {(dead, 1), (lately, 1)}
    assert done.dead == 1


async def test_dead_tasks_stay_without_dead_days(tables: ArchiveTables) -> None:
    old = NOON - 1000 * DAY
    dead = tables.life(old, "DEAD_LETTERED")
    discarded = tables.life(old, "CANCELLED", discarded=old)

    await pruned(tables, Retention(completed_days=1, cancelled_days=1))

    assert tables.lives() == {(dead, 1), (discarded, 1)}


def task_with_lives(tables: ArchiveTables, *states: str, last: datetime) -> TaskId:
    """Writes a task with several lives, of which the last ended at `last`."""
    task = tables.life(last - 900 * DAY, states[0])
    for life, state in enumerate(states[1:], 2):
        at = last if life == len(states) else last - 800 * DAY
        tables.life(at, state, task=task, life=life)
    return task


async def test_a_later_life_stays_while_an_earlier_one_stays(tables: ArchiveTables) -> None:
    task = task_with_lives(tables, "DEAD_LETTERED", "COMPLETED", last=EDGE - SECOND)

    await pruned(tables, Retention(completed_days=10))
    assert tables.lives() == {(task, 1), (task, 2)}

    done = await pruned(tables, ALL)
    assert tables.lives() == set()
    assert (done.dead, done.completed) == (1, 1)


async def test_an_earlier_life_stays_while_the_last_is_new_or_dead(tables: ArchiveTables) -> None:
    new = task_with_lives(tables, "DEAD_LETTERED", "COMPLETED", last=EDGE)
    dead = task_with_lives(tables, "DEAD_LETTERED", "DEAD_LETTERED", last=EDGE - SECOND)

    await pruned(tables)

    assert tables.lives() == {(new, 1), (new, 2), (dead, 1), (dead, 2)}


async def test_tasks_of_a_running_dag_stay(tables: ArchiveTables) -> None:
    going, over = tables.dag(None), tables.dag(NOON - 50 * DAY)
    stays = tables.life(NOON - 100 * DAY, dag=going)
    tables.life(NOON - 100 * DAY, dag=over)

    await pruned(tables)

    assert tables.lives() == {(stays, 1)}
    assert tables.database.psql("SELECT id FROM rqueue.dags") == [(going,)]


async def test_a_dag_stays_while_one_of_its_tasks_stays(tables: ArchiveTables) -> None:
    dag = tables.dag(NOON - 5 * DAY)
    tables.life(NOON - 100 * DAY, dag=dag)
    tables.life(NOON - 5 * DAY, dag=dag)

    await pruned(tables)

    assert (len(tables.lives()), tables.number("dags")) == (1, 1)


async def test_rows_of_other_tables_are_deleted_with_their_life(tables: ArchiveTables) -> None:
    for task in (tables.life(NOON - 100 * DAY), tables.life(NOON)):
        tables.failure(task, NOON - 100 * DAY)
        tables.database.psql(
            "INSERT INTO rqueue.embedding_jobs (task_id, life, queue) VALUES (%s, 1, 'sales')",
            task.uuid,
        )
        tables.database.psql(
            "INSERT INTO rqueue.dead_letter_reviews (queue, entry, task_id, life, at, resolution)"
            " VALUES ('sales', '1-1', %s, 1, now(), 'revived')", task.uuid,
        )  # fmt: skip

    await pruned(tables)

    assert (tables.number("failed_attempts"), tables.number("embedding_jobs")) == (1, 1)
    assert tables.number("dead_letter_reviews") == 2


async def test_events_and_minutes_are_deleted_by_their_own_days(tables: ArchiveTables) -> None:
    for at in (EDGE - SECOND, EDGE):
        task = tables.life(NOON)
        tables.database.psql(
            "INSERT INTO rqueue.agent_events (task_id, life, queue, agent, type, event, at)"
            " VALUES (%s, 1, 'sales', 'a', 'code', 'task.completed', %s)", task.uuid, at,
        )  # fmt: skip
    for period in ("minute", "hour", "day"):
        for at in (EDGE - SECOND, EDGE):
            tables.database.psql(
                "INSERT INTO rqueue.task_queue_metrics (queue, period, start)"
                " VALUES ('sales', %s, %s)", period, at,
            )  # fmt: skip

    done = await pruned(tables)

    assert (done.agent_events, done.metrics_minutes) == (1, 1)
    assert tables.database.psql("SELECT at FROM rqueue.agent_events") == [(EDGE,)]
    assert tables.number("task_queue_metrics") == 5
    assert len(tables.lives()) == 2


async def test_concurrent_pruners_delete_in_small_transactions(
    tables: ArchiveTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TOGETHER", 7)
    for at in range(40):
        tables.life(NOON - 100 * DAY + at * SECOND)
    stays = tables.life(NOON)

    done = await asyncio.gather(pruned(tables), pruned(tables), pruned(tables))

    await pruned(tables)
    assert tables.lives() == {(stays, 1)}
    assert sum(each.completed for each in done) <= 40


async def test_counting_deletes_nothing(
    tables: ArchiveTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TOGETHER", 2)
    for _ in range(5):
        tables.life(NOON - 100 * DAY)
    tables.life(NOON)

    found = await Pruning(tables.archive, QUEUE, ALL, now=NOON).count()

    assert (found.completed, found.total, len(tables.lives())) == (5, 5, 6)


def months(tables: ArchiveTables) -> list[object]:
    rows = tables.database.psql(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = 'rqueue.task_lives'::regclass"
    )
    return [name.removeprefix("rqueue.") for (name,) in rows if isinstance(name, str)]


async def test_empty_past_months_are_dropped(tables: ArchiveTables) -> None:
    async with tables.archive.connection() as line:
        await make_months(line, [Month(2025, 6), Month(2026, 2), Month(2026, 3), Month(2026, 4)])
        used = Month(2025, 7)
        await make_months(line, [used])
    task = TaskId.parse(used.first_id().hex[:12] + "7" + "0" * 3 + "8" + "0" * 15)
    tables.life(NOON, task=task)

    done = await pruned(tables)

    found = months(tables)
    assert done.months == 1
    assert "task_lives_2025_06" not in found
    assert {"task_lives_other", used.table, "task_lives_2026_02", "task_lives_2026_03"} <= {*found}
    assert tables.lives() == {(task, 1)}


async def test_a_locked_month_is_dropped_by_the_next_call(tables: ArchiveTables) -> None:
    async with tables.archive.connection() as line:
        await make_months(line, [Month(2025, 6)])

    with tables.database.connect() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM rqueue.task_lives")
        held = await pruned(tables)

    assert (held.months, "task_lives_2025_06" in months(tables)) == (0, True)
    assert (await pruned(tables)).months == 1


async def test_a_role_without_rights_to_a_month_skips_it(tables: ArchiveTables) -> None:
    tables.life(NOON - 100 * DAY)
    async with tables.archive.connection() as line:
        await make_months(line, [Month(2025, 5)])
    with limited_role(tables.database) as url:
        async with tables.archive.connection() as line:
            await make_months(line, [Month(2025, 6)])
        role = Archive(lambda: url)

        done = await Pruning(role, QUEUE, ALL, now=NOON).prune()

        await role.aclose()
    assert (done.completed, done.months) == (1, 0)
    assert {"task_lives_2025_05", "task_lives_2025_06"} <= {*months(tables)}


async def test_a_month_dropped_concurrently_is_skipped(
    tables: ArchiveTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tables.archive.connection() as line:
        await make_months(line, [Month(2025, 6)])
        known = {"task_lives_2025_05", *await schema.known_months(line)}

    async def before_it_was_dropped(line: object) -> set[str]:
        return known

    monkeypatch.setattr(schema, "known_months", before_it_was_dropped)

    done = await pruned(tables)

    assert (done.months, "task_lives_2025_06" in months(tables)) == (1, False)


async def test_a_killed_server_commits_a_batch_whole_or_not_at_all(own_pg: Database) -> None:
    async with open_archive(own_pg) as tables:
        tables.archive.timeout_sec = 2
        tables.failure(tables.life(NOON - 100 * DAY), NOON - 100 * DAY)
        await pruned(tables, Retention())
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await pruned(tables)
        own_pg.start()

        assert (len(tables.lives()), tables.number("failed_attempts")) == (1, 1)
        assert (await pruned(tables)).completed == 1
        assert tables.number("failed_attempts") == 0
