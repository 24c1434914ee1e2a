"""Brings what has ended from the outbox into the archive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.archive.batch import Batch, Ended, Refused, Written
from rqueue.archive.copying import escaped
from rqueue.archive.dags import dag_facts
from rqueue.archive.late import is_late, late_in
from rqueue.archive.quick import quick_row
from rqueue.archive.reviews import is_fit, write_reviews
from rqueue.archive.rows import Row, Unfit, row_of, told_in
from rqueue.store import reviews
from rqueue.store.ended import read_ended
from rqueue.store.kept import Kept, Plain, pairs, snapshot_in
from rqueue.store.outbox import Entry, Line, archived, collect, join, read_dags
from rqueue.store.values import UNREADABLE, dag_in

if TYPE_CHECKING:
    from rqueue.archive.writer import Writer
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

# Rows that are committed together: a commit costs as much as some hundred rows.
TOGETHER = 2_000
MOST_BYTES = 16_000_000
# A tick ends after about so many tasks: the next one goes on at once.
MOST = 50_000
# While PostgreSQL works on one batch, the next is made ready, and one before is let go of.
HANDS = 3
# Entries that are asked for at first: each may have as many tasks as a worker ends in one call.
FIRST = 20
# How long an archiver may take over a batch before another does it, too.
IDLE_MS = 60_000
# How often it says that the queue has an archive, should a server have lost that.
JOIN_SEC = 60.0
NUMBER = re.compile(rb"-?\d{1,9}")
MOST_REVIEWS = 10_000

# A line of an entry of the outbox, and what is kept of its task.
Found = tuple[str, Line, Kept | Plain]


@dataclass(slots=True)
class Archived:
    """What one tick did: tasks that are archived now, and what of them was there before, differed
    from what was there, or could be no row; and decisions about dead tasks. `next_ms` is 1 where
    there is more to do at once.
    """

    tasks: int = 0
    repeated: int = 0
    conflicts: int = 0
    quarantined: int = 0
    reviews: int = 0
    next_ms: int = 0


class Archiver:
    """Takes entries of the outbox, commits their rows, lets the entries go, in that order. Any
    number may run: a row that is there already changes nothing.
    """

    name = "archiver"
    interval_sec = 1.0

    def __init__(self, shard: Shard, reader: Reader, writer: Writer, *, name: str) -> None:
        self.shard = shard
        self.reader = reader
        self.writer = writer
        self.reader_name = name
        self.limits = [FIRST] * HANDS
        self.prepared = False
        self.joined_at: float | None = None

    async def tick(self) -> Archived:
        """Archives all that is there, in bounded steps. What PostgreSQL does not take because it
        is away stays in the outbox.
        """
        await self.join()
        if not self.prepared:
            await self.writer.prepare()
            self.prepared = True
        done = Archived()
        hands = [self.work(hand, done) for hand in range(HANDS)]
        # All of them end first: what one holds is not dealt with by the next tick as well.
        for ended in await asyncio.gather(*hands, self.copy_reviews(done), return_exceptions=True):
            if ended is not None:
                raise ended
        done.next_ms = int(done.tasks >= MOST or done.reviews >= MOST_REVIEWS)
        return done

    async def join(self) -> None:
        """Says now and then that the queue has an archive: before PostgreSQL is asked, since tasks
        end while that is away.
        """
        now = self.writer.clock.monotonic()
        if self.joined_at is None or now - self.joined_at >= JOIN_SEC:
            await join(self.shard)
            self.joined_at = now

    async def copy_reviews(self, done: Archived) -> None:
        """Archives what was decided about dead tasks, the oldest first, and then lets it go. What
        can be no row stays where it is, and in no other's way.
        """
        last = ""
        while done.reviews < MOST_REVIEWS and (page := await reviews.page(self.shard, after=last)):
            last = page[-1].entry
            rows = [review for review in page if is_fit(review)]
            await write_reviews(self.writer.archive, self.writer.queue, rows)
            done.reviews += await reviews.reviewed(self.shard, [review.entry for review in rows])

    async def work(self, hand: int, done: Archived) -> None:
        """Deals with one batch after the other, until nothing is left or it is enough."""
        name = f"{self.reader_name}/{hand}"
        while done.tasks < MOST:
            limit = self.limits[hand]
            entries = await collect(
                self.shard, name, idle_ms=IDLE_MS, limit=limit, max_bytes=MOST_BYTES
            )
            if not entries:
                return
            # Until it is done with them: what failed is tried again in small parts.
            self.limits[hand] = FIRST
            written, over = Written(), set[str]()
            async for batch in self.batches(entries):
                written.add(await self.writer.write(batch))
                over.update(batch.over)
            tasks = await archived(self.shard, entries, over)
            done.tasks += tasks
            done.repeated += written.repeated
            done.conflicts += written.conflicts
            done.quarantined += written.quarantined
            self.limits[hand] = limit_for(limit, entries)

    async def batches(self, entries: Sequence[Entry]) -> AsyncIterator[Batch]:
        """What entries hold, in portions that memory holds."""
        batch, size = Batch(), 0
        async for page in self.pages(entries):
            for entry, line, kept in page:
                row = quick_row(line, kept)
                if row is not None:
                    batch.ended.append(Ended(row, entry, line, kept))
                else:
                    await self.put(batch, entry, line, kept.apart())
                size += kept.size + len(line.value)
                if size >= MOST_BYTES:
                    yield await self.with_dags(batch)
                    batch, size = Batch(), 0
        yield await self.with_dags(batch)

    async def put(self, batch: Batch, entry: str, line: Line, kept: Kept) -> None:
        """Puts what is told of one task where it belongs in a batch."""
        try:
            if is_late(line):
                batch.late.append(late_in(line))
                return
            row = row_of(line, kept)
        except Unfit as error:
            batch.refused.append(Refused(entry, line, kept, str(error)))
            return
        if not row.is_typed:
            row = await self.typed(row, kept)
        batch.ended.append(Ended(row, entry, line, kept))

    async def pages(self, entries: Sequence[Entry]) -> AsyncIterator[Iterable[Found]]:
        """The lines of the entries, with what is kept of their tasks: by the line itself where the
        task may live again, or a late cost is all that it tells; else by its keys.
        """
        names: list[str] = []
        lines: list[Line] = []
        yield copied(entries, names, lines)
        done = 0
        tasks = [line.task.decode(errors="replace") for line in lines]
        async for kept in read_ended(self.shard, tasks):
            yield zip(names[done:], lines[done:], kept, strict=False)
            done += len(kept)

    async def typed(self, row: Row, kept: Kept) -> Row:
        """The row with the type that its lane tells, where its definition cannot be read."""
        fields = dict(pairs(kept.flat))
        number = fields.get(b"lane", b"")
        lane = await self.reader.lane(int(number)) if NUMBER.fullmatch(number) else None
        if lane is not None:
            row.columns["type"] = escaped(lane.type)
        return row

    async def with_dags(self, batch: Batch) -> Batch:
        """A batch with the DAGs of its tasks, as they are now."""
        named = {each.row.dag for each in batch.ended}
        named.update(dag_named(each.kept) for each in batch.refused)
        dags = sorted(dag for dag in named if dag is not None)
        for dag, fields in zip(dags, await read_dags(self.shard, dags), strict=True):
            if fields:
                batch.dags.append(dag_facts(dag, fields))
                batch.over += [dag] if "finished" in fields else []
        return batch


def copied(entries: Sequence[Entry], names: list[str], lines: list[Line]) -> Iterator[Found]:
    """The lines that bring along what is kept of their tasks, each read when it is asked for; the
    others come to those that wait, beside the names of their entries.
    """
    for entry in entries:
        for line in entry.lines:
            copy = copy_in(line)
            if copy is None:
                names.append(entry.id)
                lines.append(line)
            else:
                yield entry.id, line, copy


def copy_in(line: Line) -> Kept | None:
    """The snapshot that a line brings along, nothing at all for a late cost; None where it has none
    that can be read.
    """
    if line.value.count(b" ") == 1:
        return None
    if is_late(line):
        return Kept(())
    try:
        copy = told_in(line).copy
        return snapshot_in(copy) if copy else None
    except (Unfit, *UNREADABLE):
        return None


def dag_named(kept: Kept) -> str | None:
    """The ULID of the DAG of a task that can be no row; None where it has none."""
    fields = dict(pairs(kept.flat))
    try:
        dag = dag_in(fields.get(b"flags", b"").decode())
    except UNREADABLE:
        return None
    return None if dag is None else dag.ulid


def limit_for(limit: int, entries: Sequence[Entry]) -> int:
    """How many entries to ask for after these, so that they have about as many tasks as belong
    together; at most twice as many as before.
    """
    tasks = sum(len(entry.lines) for entry in entries)
    return max(1, min(TOGETHER, 2 * limit, round(len(entries) * TOGETHER / max(tasks, 1))))
