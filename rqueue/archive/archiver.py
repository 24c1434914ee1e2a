"""Copies ended tasks from the outbox to the archive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.archive.copying import escaped
from rqueue.archive.dag_rows import dag_facts
from rqueue.archive.plain_rows import quick_row
from rqueue.archive.reports import is_fit, write_reviews
from rqueue.archive.rows import Row, Unfit, end_in, row_of
from rqueue.archive.writer import Batch, Ended, Refused, Written, is_late, late_in
from rqueue.core.ended import EndedTask, PlainTask, pairs, read_ended, snapshot_in
from rqueue.core.outbox import Entry, OutboxItem, archived, collect, join, read_dags
from rqueue.dead import reviews
from rqueue.store.replies import UNREADABLE, dag_in

if TYPE_CHECKING:
    from rqueue.archive.writer import Writer
    from rqueue.core.reader import Reader
    from rqueue.store.shard import Shard

# Rows that are committed together: a commit costs as much as some hundred rows.
TOGETHER = 2_000
MOST_BYTES = 16_000_000
# A tick ends after about this many tasks; the next one continues immediately.
MOST = 50_000
# Concurrent readers of the outbox: while PostgreSQL writes one batch, the next is prepared and the
# previous one acknowledged.
READERS = 3
# Size of the first read, in entries: each may hold all tasks that a worker ends in one call.
FIRST = 20
# After this time another archiver also takes a batch.
IDLE_MS = 60_000
# Interval of the registration as the queue's archiver, in case a server has lost it.
JOIN_SEC = 60.0
NUMBER = re.compile(rb"-?\d{1,9}")
MOST_REVIEWS = 10_000

# A line of an outbox entry, and the stored data of its task.
Found = tuple[str, OutboxItem, EndedTask | PlainTask]


@dataclass(slots=True)
class Archived:
    """The result of one tick: the number of archived tasks; of these, how many were archived
    before, differed from their row, or were quarantined; and the number of decisions on dead tasks.
    `next_ms` is 1 if more work is waiting.
    """

    tasks: int = 0
    repeated: int = 0
    conflicts: int = 0
    quarantined: int = 0
    reviews: int = 0
    next_ms: int = 0


class Archiver:
    """Reads entries of the outbox, commits their rows, then acknowledges and deletes the entries.
    Any number of instances may run: a row that exists already is not changed.
    """

    name = "archiver"
    interval_sec = 1.0

    def __init__(self, shard: Shard, reader: Reader, writer: Writer, *, name: str) -> None:
        self.shard = shard
        self.reader = reader
        self.writer = writer
        self.reader_name = name
        self.limits = [FIRST] * READERS
        self.prepared = False
        self.joined_at: float | None = None

    async def tick(self) -> Archived:
        """Archives the entries of the outbox, in bounded batches. While PostgreSQL is unavailable,
        they stay in the outbox.
        """
        await self.join()
        if not self.prepared:
            await self.writer.prepare()
            self.prepared = True
        done = Archived()
        working = [self.work(number, done) for number in range(READERS)]
        working.append(self.copy_reviews(done))
        # All of them end first, so that the next tick does not process the entries of one as well.
        for error in await asyncio.gather(*working, return_exceptions=True):
            if error is not None:
                raise error
        done.next_ms = int(done.tasks >= MOST or done.reviews >= MOST_REVIEWS)
        return done

    async def join(self) -> None:
        """Registers periodically that the queue has an archive. This does not need PostgreSQL,
        because tasks also end while it is unavailable.
        """
        now = self.writer.clock.monotonic()
        if self.joined_at is None or now - self.joined_at >= JOIN_SEC:
            await join(self.shard)
            self.joined_at = now

    async def copy_reviews(self, done: Archived) -> None:
        """Archives and deletes decisions on dead tasks, oldest first. One that cannot be stored as
        a row stays in the stream and does not block the others.
        """
        last = ""
        while done.reviews < MOST_REVIEWS and (page := await reviews.page(self.shard, after=last)):
            last = page[-1].entry
            rows = [review for review in page if is_fit(review)]
            await write_reviews(self.writer.archive, self.writer.queue, rows)
            done.reviews += await reviews.reviewed(self.shard, [review.entry for review in rows])

    async def work(self, number: int, done: Archived) -> None:
        """Archives one batch after the other until the outbox is empty or the limit is reached."""
        name = f"{self.reader_name}/{number}"
        while done.tasks < MOST:
            limit = self.limits[number]
            entries = await collect(
                self.shard, name, idle_ms=IDLE_MS, limit=limit, max_bytes=MOST_BYTES
            )
            if not entries:
                return
            # Until the entries are archived: after an error they are read again in small parts.
            self.limits[number] = FIRST
            written, ended_dags = Written(), set[str]()
            async for batch in self.batches(entries):
                written.add(await self.writer.write(batch))
                ended_dags.update(batch.ended_dags)
            tasks = await archived(self.shard, entries, ended_dags)
            done.tasks += tasks
            done.repeated += written.repeated
            done.conflicts += written.conflicts
            done.quarantined += written.quarantined
            self.limits[number] = limit_for(limit, entries)

    async def batches(self, entries: Sequence[Entry]) -> AsyncIterator[Batch]:
        """Yields the content of entries in batches of limited size."""
        batch, size = Batch(), 0
        async for page in self.pages(entries):
            for entry, line, kept in page:
                row = quick_row(line, kept)
                if row is not None:
                    batch.ended.append(Ended(row, entry, line, kept))
                else:
                    await self.put(batch, entry, line, kept.unpacked())
                size += kept.size + len(line.value)
                if size >= MOST_BYTES:
                    yield await self.with_dags(batch)
                    batch, size = Batch(), 0
        yield await self.with_dags(batch)

    async def put(self, batch: Batch, entry: str, line: OutboxItem, kept: EndedTask) -> None:
        """Adds one line of the outbox to a batch."""
        try:
            if is_late(line):
                batch.late.append(late_in(line))
                return
            row = row_of(line, kept)
        except Unfit as error:
            batch.refused.append(Refused(entry, line, kept, str(error)))
            return
        if not row.is_typed:
            row = await self.with_type(row, kept)
        batch.ended.append(Ended(row, entry, line, kept))

    async def pages(self, entries: Sequence[Entry]) -> AsyncIterator[Iterable[Found]]:
        """Yields the lines of the entries with the data of their tasks: from the line itself if the
        task may be retried or the line is a late cost, else from the task's keys.
        """
        names: list[str] = []
        lines: list[OutboxItem] = []
        yield copied(entries, names, lines)
        done = 0
        tasks = [line.task.decode(errors="replace") for line in lines]
        async for kept in read_ended(self.shard, tasks):
            yield zip(names[done:], lines[done:], kept, strict=False)
            done += len(kept)

    async def with_type(self, row: Row, kept: EndedTask) -> Row:
        """Returns the row with the type of the task's lane, for a definition that cannot be
        decoded.
        """
        fields = dict(pairs(kept.flat))
        number = fields.get(b"lane", b"")
        lane = await self.reader.lane(int(number)) if NUMBER.fullmatch(number) else None
        if lane is not None:
            row.columns["type"] = escaped(lane.type)
        return row

    async def with_dags(self, batch: Batch) -> Batch:
        """Adds the current state of the tasks' DAGs to a batch and returns it."""
        named = {each.row.dag for each in batch.ended}
        named.update(dag_named(each.kept) for each in batch.refused)
        dags = sorted(dag for dag in named if dag is not None)
        for dag, fields in zip(dags, await read_dags(self.shard, dags), strict=True):
            if fields:
                batch.dags.append(dag_facts(dag, fields))
                batch.ended_dags += [dag] if "finished" in fields else []
        return batch


def copied(entries: Sequence[Entry], names: list[str], lines: list[OutboxItem]) -> Iterator[Found]:
    """Yields the lines that contain the data of their tasks, each decoded on demand. Appends the
    other lines to `lines`, and the ids of their entries to `names`.
    """
    for entry in entries:
        for line in entry.lines:
            copy = copy_in(line)
            if copy is None:
                names.append(entry.id)
                lines.append(line)
            else:
                yield entry.id, line, copy


def copy_in(line: OutboxItem) -> EndedTask | None:
    """Returns the snapshot in a line, empty for a late cost; None if there is none that can be
    decoded.
    """
    if line.value.count(b" ") == 1:
        return None
    if is_late(line):
        return EndedTask(())
    try:
        copy = end_in(line).copy
        return snapshot_in(copy) if copy else None
    except (Unfit, *UNREADABLE):
        return None


def dag_named(kept: EndedTask) -> str | None:
    """Returns the ULID of the DAG of a quarantined task; None without a DAG."""
    fields = dict(pairs(kept.flat))
    try:
        dag = dag_in(fields.get(b"flags", b"").decode())
    except UNREADABLE:
        return None
    return None if dag is None else dag.ulid


def limit_for(limit: int, entries: Sequence[Entry]) -> int:
    """Returns the number of entries to read next, so that they contain about one batch of tasks; at
    most twice the last number.
    """
    tasks = sum(len(entry.lines) for entry in entries)
    return max(1, min(TOGETHER, 2 * limit, round(len(entries) * TOGETHER / max(tasks, 1))))
