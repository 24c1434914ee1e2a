"""The writer: a life is one row, its first end is stored, and different ends are counted."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from rqueue.archive.copying import EMBEDDING_JOBS
from rqueue.archive.plain_rows import quick_row
from rqueue.archive.rows import row_of
from rqueue.archive.writer import Batch, Ended, Refused, Writer, Written
from rqueue.clock import SYSTEM
from rqueue.core.ended import EndedTask, PlainTask
from rqueue.core.outbox import OutboxItem
from rqueue.task.ids import TaskId, ulid_of
from tests.archive.archiver_harness import ArchiverHarness
from tests.archive.limited_role import limited_role
from tests.archive.test_rows import a_kept, a_plain


def made_at(when: datetime, n: int = 0) -> TaskId:
    """Returns an id created at this time."""
    ms = round(when.timestamp() * 1000)
    return TaskId.parse(ulid_of(ms << 80 | 0x7 << 76 | 0x2 << 62 | n << 10))


def ended(
    task: TaskId, kept: EndedTask | PlainTask | None = None, value: bytes = b"1 COMPLETED"
) -> Ended:
    line, kept = OutboxItem(task.ulid.encode(), value), kept or a_plain()
    row = quick_row(line, kept) or row_of(line, kept.unpacked())
    return Ended(row, "1-1", line, kept)


@pytest.fixture
def writer(pg_env: ArchiverHarness) -> Writer:
    return pg_env.archiver.writer


NOW = SYSTEM.now()


async def test_the_same_end_twice_changes_nothing(pg_env: ArchiverHarness, writer: Writer) -> None:
    batch = Batch([ended(made_at(NOW))])
    assert await writer.write(batch) == Written(rows=1)
    before = pg_env.query("SELECT t::text FROM rqueue.task_lives t")

    assert await writer.write(batch) == Written(repeated=1)

    assert pg_env.query("SELECT t::text FROM rqueue.task_lives t") == before


async def test_the_first_end_is_stored_and_another_is_counted_once(
    pg_env: ArchiverHarness, writer: Writer
) -> None:
    task = made_at(NOW)
    await writer.write(Batch([ended(task)]))
    other = Batch([ended(task, a_kept(result=b'"second"'))])

    assert await writer.write(other) == Written(repeated=1, conflicts=1)
    assert await writer.write(other) == Written(repeated=1)

    assert pg_env.query("SELECT output FROM rqueue.task_lives") == [({"ok": True},)]
    assert pg_env.query("SELECT id, result FROM rqueue.conflicts") == [(task.uuid, b'"second"')]


async def test_the_first_of_several_ends_in_one_batch_is_stored(
    pg_env: ArchiverHarness, writer: Writer
) -> None:
    task, other = made_at(NOW), made_at(NOW, 1)
    second, third = (a_kept(result=result) for result in (b'"second"', b'"third"'))
    batch = Batch([ended(task), ended(other), ended(task, second), ended(task, third), ended(task)])

    assert await writer.write(batch) == Written(rows=2, repeated=3, conflicts=2)
    assert await writer.write(batch) == Written(repeated=5)

    assert pg_env.query("SELECT output FROM rqueue.task_lives") == [({"ok": True},)] * 2
    assert pg_env.query("SELECT id, result FROM rqueue.conflicts ORDER BY result") == [
        (task.uuid, b'"second"'), (task.uuid, b'"third"'),
    ]  # fmt: skip


async def test_only_a_life_stored_as_completed_is_embedded(
    pg_env: ArchiverHarness, writer: Writer
) -> None:
    first, second = made_at(NOW), made_at(NOW, 1)
    cancelled = a_kept({b"state": b"CANCELLED"})
    writer.extras = [EMBEDDING_JOBS]

    await writer.write(Batch([ended(first, cancelled, b"1 CANCELLED"), ended(second)]))
    await writer.write(Batch([ended(first), ended(second, cancelled, b"1 CANCELLED")]))

    assert pg_env.query("SELECT task_id, queue FROM rqueue.embedding_jobs") == [
        (second.uuid, writer.queue)
    ]


@pytest.mark.parametrize("order", [1, -1])
async def test_in_one_batch_a_discarded_end_replaces_its_dead_one(
    pg_env: ArchiverHarness, writer: Writer, order: int
) -> None:
    task = made_at(NOW)
    dead = a_kept({b"state": b"DEAD_LETTERED"})
    given_up = a_kept({b"state": b"CANCELLED", b"discarded": b"1794962239999"})
    ends = [ended(task, dead, b"1 DEAD_LETTERED"), ended(task, given_up, b"1 CANCELLED")]

    assert await writer.write(Batch(ends[::order])) == Written(rows=1, repeated=1)

    assert pg_env.query("SELECT state, discarded_at IS NOT NULL FROM rqueue.task_lives") == [
        ("CANCELLED", True)
    ]


async def test_a_refused_row_does_not_block_the_others_of_its_batch(
    pg_env: ArchiverHarness, writer: Writer
) -> None:
    bad = a_kept(definition=b'{"t":"send","p":1e200000}')
    tasks = [made_at(NOW, n) for n in range(9)]
    batch = Batch([ended(task, bad if n == 4 else None) for n, task in enumerate(tasks)])

    assert await writer.write(batch) == Written(rows=9)

    assert pg_env.query("SELECT id FROM rqueue.task_lives WHERE spec IS NULL") == [(tasks[4].uuid,)]


async def test_each_month_has_its_partition(pg_env: ArchiverHarness, writer: Writer) -> None:
    tasks = [made_at(datetime(2024, month, 15, tzinfo=UTC)) for month in (1, 2, 12)]

    await writer.write(Batch([ended(task) for task in tasks]))

    found = pg_env.query("SELECT tableoid::regclass::text FROM rqueue.task_lives ORDER BY id")
    assert [name for (name,) in found] == [
        "task_lives_2024_01", "task_lives_2024_02", "task_lives_2024_12",
    ]  # fmt: skip


@pytest.mark.parametrize("id", [UUID(int=0x7 << 76 | 0x2 << 62), UUID(int=(1 << 128) - 1)])
async def test_an_id_of_a_wrong_clock_goes_to_the_default_partition(
    pg_env: ArchiverHarness, writer: Writer, id: UUID
) -> None:
    task = TaskId.from_ulid(ulid_of(id.int))

    await writer.write(Batch([ended(task)]))

    assert pg_env.query("SELECT id, tableoid::regclass::text FROM rqueue.task_lives") == [
        (id, "task_lives_other")
    ]


async def test_a_role_that_cannot_create_tables_still_writes(
    pg_env: ArchiverHarness, writer: Writer
) -> None:
    task, line = made_at(datetime(2023, 3, 3, tzinfo=UTC)), OutboxItem(b"bad", b"1 COMPLETED")
    with limited_role(pg_env.database) as url:
        pg_env.archive.locate = lambda: url
        await pg_env.archive.aclose()

        batch = Batch([ended(task)], [Refused("1-1", line, EndedTask(()), "bad")])

        assert await writer.write(batch) == Written(rows=1, quarantined=1)

    assert pg_env.query("SELECT tableoid::regclass::text FROM rqueue.task_lives") == [
        ("task_lives_other",)
    ]
