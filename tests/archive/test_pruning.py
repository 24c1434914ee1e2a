"""Retention: what has been kept for long enough goes, to the second, and nothing else."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from rqueue.archive import schema
from rqueue.archive.connection import Archive
from rqueue.archive.maintenance import pruning
from rqueue.archive.maintenance.pruning import Pruned, Pruning
from rqueue.archive.retention import Retention
from rqueue.archive.schema import Month, make_months
from rqueue.errors import StoreUnavailable
from rqueue.task.ids import TaskId
from tests.archive.granted import granted
from tests.archive.kept import NOON, QUEUE, Kept
from tests.archive.kept import opened as open_archive
from tests.postgres import Database

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
ALL = Retention(completed_days=10, cancelled_days=10, dead_days=10, agent_event_days=10,
                metrics_minute_days=10)  # fmt: skip
EDGE = NOON - 10 * DAY


async def pruned(kept: Kept, policy: Retention = ALL, now: datetime = NOON) -> Pruned:
    return await Pruning(kept.archive, QUEUE, policy, now=now).prune()


async def test_by_default_nothing_ever_goes(kept: Kept) -> None:
    kept.life(NOON - 3000 * DAY)
    kept.life(NOON - 3000 * DAY, "CANCELLED")

    done = await pruned(kept, Retention())

    assert done.completed + done.cancelled + done.dead == 0
    assert len(kept.lives()) == 2


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED"])
async def test_a_row_goes_at_the_second_that_its_days_are_over(kept: Kept, state: str) -> None:
    kept.life(EDGE - SECOND, state)
    stays = kept.life(EDGE, state)
    kept.life(EDGE - SECOND, state, queue="other")

    await pruned(kept)

    assert (stays, 1) in kept.lives()
    assert len(kept.lives()) == 2


async def test_each_kind_has_days_of_its_own(kept: Kept) -> None:
    old = NOON - 100 * DAY
    completed, cancelled = kept.life(old), kept.life(old, "CANCELLED")

    await pruned(kept, Retention(cancelled_days=1))
    assert kept.lives() == {(completed, 1)}

    await pruned(kept, Retention(completed_days=1))
    assert kept.lives() == set()
    assert cancelled != completed


async def test_a_key_keeps_its_row_for_as_long_as_it_counts(kept: Kept) -> None:
    stays, goes = kept.life(NOON - 20 * DAY), kept.life(NOON - 20 * DAY - SECOND)
    kept.database.psql("UPDATE rqueue.task_lives SET idempotency_sha = 'x'")
    plain = kept.life(NOON - 20 * DAY)

    await Pruning(kept.archive, QUEUE, ALL, now=NOON, window=20 * DAY).prune()

    assert kept.lives() == {(stays, 1)}
    assert goes != plain


async def test_the_dead_stay_until_they_are_resolved(kept: Kept) -> None:
    old = NOON - 1000 * DAY
    dead = kept.life(old, "DEAD_LETTERED")
    kept.life(old, "CANCELLED", discarded=EDGE - SECOND)
    lately = kept.life(old, "CANCELLED", discarded=EDGE)

    done = await pruned(kept)

    assert kept.lives() == {(dead, 1), (lately, 1)}
    assert done.dead == 1


async def test_the_dead_stay_where_nobody_says_otherwise(kept: Kept) -> None:
    old = NOON - 1000 * DAY
    dead = kept.life(old, "DEAD_LETTERED")
    discarded = kept.life(old, "CANCELLED", discarded=old)

    await pruned(kept, Retention(completed_days=1, cancelled_days=1))

    assert kept.lives() == {(dead, 1), (discarded, 1)}


def lived(kept: Kept, *states: str, last: datetime) -> TaskId:
    """A task with several lives, of which the last ended when it is said."""
    task = kept.life(last - 900 * DAY, states[0])
    for life, state in enumerate(states[1:], 2):
        at = last if life == len(states) else last - 800 * DAY
        kept.life(at, state, task=task, life=life)
    return task


async def test_a_later_life_stays_while_an_earlier_one_does(kept: Kept) -> None:
    task = lived(kept, "DEAD_LETTERED", "COMPLETED", last=EDGE - SECOND)

    await pruned(kept, Retention(completed_days=10))
    assert kept.lives() == {(task, 1), (task, 2)}

    done = await pruned(kept, ALL)
    assert kept.lives() == set()
    assert (done.dead, done.completed) == (1, 1)


async def test_an_earlier_life_stays_while_the_last_is_new_or_dead(kept: Kept) -> None:
    new = lived(kept, "DEAD_LETTERED", "COMPLETED", last=EDGE)
    dead = lived(kept, "DEAD_LETTERED", "DEAD_LETTERED", last=EDGE - SECOND)

    await pruned(kept)

    assert kept.lives() == {(new, 1), (new, 2), (dead, 1), (dead, 2)}


async def test_what_belongs_to_a_dag_that_is_not_over_stays(kept: Kept) -> None:
    going, over = kept.dag(None), kept.dag(NOON - 50 * DAY)
    stays = kept.life(NOON - 100 * DAY, dag=going)
    kept.life(NOON - 100 * DAY, dag=over)

    await pruned(kept)

    assert kept.lives() == {(stays, 1)}
    assert kept.database.psql("SELECT id FROM rqueue.dags") == [(going,)]


async def test_a_dag_stays_while_a_task_of_it_does(kept: Kept) -> None:
    dag = kept.dag(NOON - 5 * DAY)
    kept.life(NOON - 100 * DAY, dag=dag)
    kept.life(NOON - 5 * DAY, dag=dag)

    await pruned(kept)

    assert (len(kept.lives()), kept.number("dags")) == (1, 1)


async def test_what_a_row_alone_explains_goes_with_it(kept: Kept) -> None:
    for task in (kept.life(NOON - 100 * DAY), kept.life(NOON)):
        kept.failure(task, NOON - 100 * DAY)
        kept.database.psql(
            "INSERT INTO rqueue.embedding_jobs (task_id, life, queue) VALUES (%s, 1, 'house')",
            task.uuid,
        )
        kept.database.psql(
            "INSERT INTO rqueue.dead_letter_reviews (queue, entry, task_id, life, at, resolution)"
            " VALUES ('house', '1-1', %s, 1, now(), 'revived')", task.uuid,
        )  # fmt: skip

    await pruned(kept)

    assert (kept.number("failed_attempts"), kept.number("embedding_jobs")) == (1, 1)
    assert kept.number("dead_letter_reviews") == 2


async def test_events_and_minutes_go_by_their_own_time(kept: Kept) -> None:
    for at in (EDGE - SECOND, EDGE):
        task = kept.life(NOON)
        kept.database.psql(
            "INSERT INTO rqueue.agent_events (task_id, life, queue, agent, type, event, at)"
            " VALUES (%s, 1, 'house', 'a', 'code', 'task.completed', %s)", task.uuid, at,
        )  # fmt: skip
    for period in ("minute", "hour", "day"):
        for at in (EDGE - SECOND, EDGE):
            kept.database.psql(
                "INSERT INTO rqueue.task_queue_metrics (queue, period, start)"
                " VALUES ('house', %s, %s)", period, at,
            )  # fmt: skip

    done = await pruned(kept)

    assert (done.agent_events, done.metrics_minutes) == (1, 1)
    assert kept.database.psql("SELECT at FROM rqueue.agent_events") == [(EDGE,)]
    assert kept.number("task_queue_metrics") == 5
    assert len(kept.lives()) == 2


async def test_many_go_in_small_transactions_by_several_hands(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "TOGETHER", 7)
    for at in range(40):
        kept.life(NOON - 100 * DAY + at * SECOND)
    stays = kept.life(NOON)

    done = await asyncio.gather(pruned(kept), pruned(kept), pruned(kept))

    await pruned(kept)
    assert kept.lives() == {(stays, 1)}
    assert sum(each.completed for each in done) <= 40


async def test_to_count_changes_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "TOGETHER", 2)
    for _ in range(5):
        kept.life(NOON - 100 * DAY)
    kept.life(NOON)

    found = await Pruning(kept.archive, QUEUE, ALL, now=NOON).count()

    assert (found.completed, found.total, len(kept.lives())) == (5, 5, 6)


def months(kept: Kept) -> list[object]:
    rows = kept.database.psql(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = 'rqueue.task_lives'::regclass"
    )
    return [name.removeprefix("rqueue.") for (name,) in rows if isinstance(name, str)]


async def test_months_that_are_over_and_empty_go(kept: Kept) -> None:
    async with kept.archive.connection() as line:
        await make_months(line, [Month(2025, 6), Month(2026, 2), Month(2026, 3), Month(2026, 4)])
        used = Month(2025, 7)
        await make_months(line, [used])
    task = TaskId.parse(used.first_id().hex[:12] + "7" + "0" * 3 + "8" + "0" * 15)
    kept.life(NOON, task=task)

    done = await pruned(kept)

    found = months(kept)
    assert done.months == 1
    assert "task_lives_2025_06" not in found
    assert {"task_lives_other", used.table, "task_lives_2026_02", "task_lives_2026_03"} <= {*found}
    assert kept.lives() == {(task, 1)}


async def test_a_month_in_use_is_left_for_the_next_time(kept: Kept) -> None:
    async with kept.archive.connection() as line:
        await make_months(line, [Month(2025, 6)])

    with kept.database.connect() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM rqueue.task_lives")
        held = await pruned(kept)

    assert (held.months, "task_lives_2025_06" in months(kept)) == (0, True)
    assert (await pruned(kept)).months == 1


async def test_a_role_without_rights_to_a_month_prunes_and_leaves_it(kept: Kept) -> None:
    kept.life(NOON - 100 * DAY)
    async with kept.archive.connection() as line:
        await make_months(line, [Month(2025, 5)])
    with granted(kept.database) as url:
        async with kept.archive.connection() as line:
            await make_months(line, [Month(2025, 6)])
        role = Archive(lambda: url)

        done = await Pruning(role, QUEUE, ALL, now=NOON).prune()

        await role.aclose()
    assert (done.completed, done.months) == (1, 0)
    assert {"task_lives_2025_05", "task_lives_2025_06"} <= {*months(kept)}


async def test_a_month_that_another_drops_meanwhile_is_gone(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kept.archive.connection() as line:
        await make_months(line, [Month(2025, 6)])
        known = {"task_lives_2025_05", *await schema.known_months(line)}

    async def before_it_was_dropped(line: object) -> set[str]:
        return known

    monkeypatch.setattr(schema, "known_months", before_it_was_dropped)

    done = await pruned(kept)

    assert (done.months, "task_lives_2025_06" in months(kept)) == (1, False)


async def test_a_server_that_goes_away_leaves_all_or_nothing_of_a_batch(own_pg: Database) -> None:
    async with open_archive(own_pg) as kept:
        kept.archive.timeout_sec = 2
        kept.failure(kept.life(NOON - 100 * DAY), NOON - 100 * DAY)
        await pruned(kept, Retention())
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await pruned(kept)
        own_pg.start()

        assert (len(kept.lives()), kept.number("failed_attempts")) == (1, 1)
        assert (await pruned(kept)).completed == 1
        assert kept.number("failed_attempts") == 0
