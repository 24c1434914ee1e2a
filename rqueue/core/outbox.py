"""The outbox: ended tasks, held by one archiver at a time until their rows are committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.core.ended import Flat, pairs
from rqueue.errors import OutboxNotEmpty, ScriptFault
from rqueue.store.replies import ok, text
from rqueue.store.shard import BYTES, CHUNK

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.store.url import Client

GROUP = "archive"
# Entries per page of a read.
PAGE = 500
# Entries that are read before their size is checked.
STEP = 20
# Tasks that one call acknowledges: each has a few keys that begin to expire.
TOGETHER = 250


class OutboxItem(NamedTuple):
    """One task of an entry: `<life> <state> [snapshot]`, or a cost that a run reported late:
    `<life> COST <facts>`.
    """

    task: bytes
    value: bytes


class Entry(NamedTuple):
    """An entry of the outbox: the tasks that ended in one call."""

    id: str
    lines: list[OutboxItem]


class OutboxSize(NamedTuple):
    """The outbox as a walk found it: its entries, the tasks in them, and the last entry."""

    entries: int
    tasks: int
    last: str


async def join(shard: Shard) -> None:
    """Records that the queue has an archive, also for clients whose settings have none."""
    await shard.run("archive/join", {"most": shard.terms.max_outbox})


async def leave(shard: Shard) -> None:
    """Records that the queue has no archive any more; raises OutboxNotEmpty."""
    reply = await shard.run("archive/leave")
    if text(reply[0]) == "FULL":
        raise OutboxNotEmpty(int(reply[1]))
    ok("archive/leave", "", reply)


async def is_joined(shard: Shard) -> bool:
    """Whether the queue is recorded as having an archive."""
    key = shard.keys.archiving()
    connection = shard.runner.connection
    return bool(await connection.call(lambda client: client.exists(key), what="archiving"))


async def collect(
    shard: Shard, archiver: str, *, idle_ms: int, limit: int, max_bytes: int = BYTES
) -> list[Entry]:
    """The next entries for an archiver: those it holds, else those of archivers that have been
    silent for `idle_ms`, else new ones, up to about `max_bytes`. Repeated, the call returns the
    same.
    """
    args: dict[str, Argument] = {
        "group": GROUP,
        "archiver": archiver,
        "idle_ms": idle_ms,
        "limit": limit,
        "max_bytes": max_bytes,
        "step": STEP,
    }
    (found,) = ok("archive/collect", "", await shard.run("archive/collect", args))
    return [Entry(text(id), [OutboxItem(*pair) for pair in pairs(words)]) for id, words in found]


async def read_dags(shard: Shard, dags: Sequence[str]) -> list[dict[str, str]]:
    """The hashes of DAGs, as text; empty where there is none."""
    found: list[dict[str, str]] = []
    for start in range(0, len(dags), CHUNK):
        for flat in await read_dag_page(shard, dags[start : start + CHUNK]):
            found.append(dict(pairs([word.decode(errors="replace") for word in flat])))
    return found


async def read_dag_page(shard: Shard, page: Sequence[str]) -> list[Flat]:
    """The hashes of a page of DAGs; an empty one where the key is of another type."""
    try:
        reply = await shard.run("dag/facts", {}, [(dag,) for dag in page])
        return list(ok("dag/facts", "", reply))
    except ScriptFault as fault:
        if "WRONGTYPE" not in str(fault.reply):
            raise
    half = len(page) // 2
    if not half:
        return [()]
    return [*await read_dag_page(shard, page[:half]), *await read_dag_page(shard, page[half:])]


async def oldest_ms(shard: Shard) -> int | None:
    """Age of the first entry; None where there is none."""
    found: Any = await shard.runner.connection.execute(
        [("XRANGE", shard.keys.outbox(), "-", "+", "COUNT", 1), ("TIME",)], what="XRANGE"
    )
    (page, (seconds, micros)) = found
    if not page:
        return None
    began = int(text(page[0][0]).partition("-")[0])
    return max(0, int(seconds) * 1000 + int(micros) // 1000 - began)


async def archived(shard: Shard, entries: Sequence[Entry], dags: Iterable[str] = ()) -> int:
    """Acknowledges and deletes entries whose rows are committed, and the keys stored for them;
    returns how many tasks they had. `dags` are those whose rows have an end. Entries that are gone
    change nothing.
    """
    args: dict[str, Argument] = {
        "group": GROUP, "ttl": shard.terms.result_ttl_ms, "dags": " ".join(dags),
    }  # fmt: skip

    async def acknowledge(portion: Sequence[Entry]) -> int:
        reply = await shard.run("archive/acknowledge", args, [(entry.id,) for entry in portion])
        return int(ok("archive/acknowledge", "", reply)[0])

    # All calls are sent together and awaited to the end: one after the other, each would wait for a
    # busy event loop.
    tasks = 0
    calls = map(acknowledge, portions(entries))
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
        tasks += found
    return tasks


def portions(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries in groups that one call processes; an entry is never divided."""
    group: list[Entry] = []
    tasks = 0
    for entry in entries:
        group.append(entry)
        tasks += len(entry.lines)
        if tasks >= TOGETHER:
            yield group
            group, tasks = [], 0
    if group:
        yield group


async def walk(shard: Shard, *, limit: int = PAGE) -> AsyncIterator[list[Entry]]:
    """The stored entries, oldest first, a page at a time; none is taken."""
    key, low = shard.keys.outbox(), "-"
    while True:
        send = partial(page_of, key=key, low=low, limit=limit)
        found: Any = await shard.runner.connection.call(send, what="outbox")
        if not found:
            return
        low = f"({text(found[-1][0])}"
        yield [
            Entry(text(id), [OutboxItem(*pair) for pair in lines.items()]) for id, lines in found
        ]


async def measure(shard: Shard) -> OutboxSize:
    """The size of the outbox."""
    entries, tasks, last = 0, 0, ""
    async for page in walk(shard):
        entries += len(page)
        tasks += sum(len(entry.lines) for entry in page)
        last = page[-1].id
    return OutboxSize(entries, tasks, last)


async def page_of(client: Client, *, key: str, low: str, limit: int) -> Any:
    """A page of a stream."""
    return await client.xrange(key, low, "+", count=limit)


async def recount(shard: Shard, size: OutboxSize, counter: int) -> bool:
    """Sets the counter of the outbox, which was `counter`, to the size that a walk found; whether
    neither had changed.
    """
    args: dict[str, Argument] = {
        "entries": size.entries,
        "last": size.last,
        "counter": counter,
        "counted": size.tasks,
    }
    return text((await shard.run("archive/recount", args))[0]) == "OK"


async def resend(shard: Shard, lives: Sequence[tuple[str, int]]) -> int:
    """Puts ended lives into the outbox that are neither there nor in the archive; returns how many.
    Tasks that were retried or have not ended are skipped.
    """
    sent = 0
    for start in range(0, len(lives), TOGETHER):
        rows = lives[start : start + TOGETHER]
        sent += int(ok("archive/resend", "", await shard.run("archive/resend", {}, rows))[0])
    return sent
