"""How much an archiver takes in hand at once: by tasks and by bytes, and little after a fault."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.archive import archiver as module
from rqueue.archive.writer import Batch, Writer, Written
from rqueue.core import outbox
from rqueue.core.ended import EndedTask, snapshot_in
from rqueue.errors import StoreUnavailable
from tests.archive.library import Library


async def test_no_more_of_the_dead_is_read_than_is_written_together(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await shelf.dead()
    read: list[bytes] = []
    known: list[int] = []

    def noted(copy: bytes) -> EndedTask:
        read.append(copy)
        return snapshot_in(copy)

    async def write(batch: Batch) -> Written:
        known.append(len(read))
        return await Writer.write(shelf.archiver.writer, batch)

    monkeypatch.setattr(module, "snapshot_in", noted)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    monkeypatch.setattr(shelf.archiver.writer, "write", write)
    await shelf.archiver.tick()

    assert known[:5] == [1, 2, 3, 4, 5]
    assert shelf.count() == 5


async def test_after_a_fault_it_goes_on_in_small_parts(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelf.completed()
    shelf.archiver.limits = [module.TOGETHER] * module.READERS

    async def away(*_: Any) -> Written:
        raise StoreUnavailable("PostgreSQL")

    monkeypatch.setattr(shelf.archiver.writer, "write", away)
    with pytest.raises(StoreUnavailable):
        await shelf.archiver.tick()

    assert sorted(shelf.archiver.limits) == [module.FIRST, module.TOGETHER, module.TOGETHER]


@pytest.mark.parametrize(
    ("limit", "entries", "tasks", "then"),
    [(20, 20, 20, 40), (40, 1, 1, 80), (20, 20, 2_000, 20), (80, 80, 16_000, 10), (3, 1, 9_000, 1),
     (1_500, 1_500, 1_500, module.TOGETHER)],
)  # fmt: skip
def test_entries_are_asked_for_by_the_tasks_they_have_and_never_many_more_than_before(
    limit: int, entries: int, tasks: int, then: int
) -> None:
    lines = [outbox.OutboxItem(b"t", b"v")] * (tasks // entries)

    assert module.limit_for(limit, [outbox.Entry("1-0", lines)] * entries) == then
