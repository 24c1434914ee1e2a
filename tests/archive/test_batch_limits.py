"""Sizes of an archiver's batches: in tasks, in bytes, and after an error."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.archive import archiver as module
from rqueue.archive.writer import Batch, Writer, Written
from rqueue.core import outbox
from rqueue.core.ended import EndedTask, snapshot_in
from rqueue.errors import StoreUnavailable
from tests.archive.archiver_harness import ArchiverHarness


async def test_a_batch_of_dead_tasks_is_bounded(
    pg_env: ArchiverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await pg_env.dead()
    read: list[bytes] = []
    known: list[int] = []

    def noted(copy: bytes) -> EndedTask:
        read.append(copy)
        return snapshot_in(copy)

    async def write(batch: Batch) -> Written:
        known.append(len(read))
        return await Writer.write(pg_env.archiver.writer, batch)

    monkeypatch.setattr(module, "snapshot_in", noted)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    monkeypatch.setattr(pg_env.archiver.writer, "write", write)
    await pg_env.archiver.tick()

    assert known[:5] == [1, 2, 3, 4, 5]
    assert pg_env.count() == 5


async def test_after_an_error_small_parts_are_read(
    pg_env: ArchiverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pg_env.completed()
    pg_env.archiver.limits = [module.TOGETHER] * module.READERS

    async def away(*_: Any) -> Written:
        raise StoreUnavailable("PostgreSQL")

    monkeypatch.setattr(pg_env.archiver.writer, "write", away)
    with pytest.raises(StoreUnavailable):
        await pg_env.archiver.tick()

    assert sorted(pg_env.archiver.limits) == [module.FIRST, module.TOGETHER, module.TOGETHER]


@pytest.mark.parametrize(
    ("limit", "entries", "tasks", "then"),
    [(20, 20, 20, 40), (40, 1, 1, 80), (20, 20, 2_000, 20), (80, 80, 16_000, 10), (3, 1, 9_000, 1),
     (1_500, 1_500, 1_500, module.TOGETHER)],
)  # fmt: skip
def test_the_next_limit_follows_the_tasks_per_entry_and_at_most_doubles(
    limit: int, entries: int, tasks: int, then: int
) -> None:
    lines = [outbox.OutboxItem(b"t", b"v")] * (tasks // entries)

    assert module.limit_for(limit, [outbox.Entry("1-0", lines)] * entries) == then
