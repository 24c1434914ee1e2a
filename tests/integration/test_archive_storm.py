"""Archiver processes that are killed at work, and a PostgreSQL that is restarted: every end of a
task becomes one row with its definition and its result (G16).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from rqueue import Lease, TaskId
from rqueue.core.outbox import GROUP
from tests.archive.archiver_harness import ArchiverHarness, archiver_harness
from tests.postgres import Database
from tests.processes import Process, killed
from tests.queue.until import until
from tests.servers import Server

ROUNDS, EACH = 5, 24


@pytest.fixture
async def shelf(valkey: Server, own_pg: Database) -> AsyncIterator[ArchiverHarness]:
    async with archiver_harness(valkey, own_pg) as found:
        yield found


def archiver(server: Server, database: Database) -> Process:
    """`rqueue archiver` in a process."""
    environment = {
        **os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_POSTGRES_URL": database.url,
        "RQUEUE_QUEUE": "sales",
    }  # fmt: skip
    command = [sys.executable, "-m", "rqueue", "archiver", "--log-level", "error"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


class End(NamedTuple):
    """The end of a life, with a hash of its definition and result."""

    task: UUID
    life: int
    state: str
    content: str


def hashed(payload: object, result: object, why: object) -> str:
    """The content of a life as one hash; equal values have equal texts."""
    text = json.dumps({"payload": payload, "result": result, "why": why}, sort_keys=True)
    return sha256(text.encode()).hexdigest()


async def held(shelf: ArchiverHarness, payload: object) -> Lease:
    """A task that a worker has started."""
    await shelf.harness.queue.enqueue("code", payload, max_attempts=1)
    (lease,) = await shelf.harness.queue.claim(worker="w1")
    await lease.start()
    return lease


async def ends(shelf: ArchiverHarness, book: list[End]) -> None:
    """Ends tasks in every way, each with its own content, and records the expected rows."""
    for n in range(EACH):
        payload = {"n": len(book), "text": "é \n\t\\ '"}
        if n % 4 == 0:
            lease = await held(shelf, payload)
            await lease.fail("error", why := f"boom {n}")
            book.append(End(lease.id.uuid, 1, "DEAD_LETTERED", hashed(payload, None, why)))
        elif n % 4 == 1:
            handle = await shelf.harness.queue.enqueue("code", payload)
            await handle.cancel(why := f"no need {n}")
            book.append(End(handle.id.uuid, 1, "CANCELLED", hashed(payload, None, why)))
        else:
            # Plain tasks are archived by the fast path, those with a tag are not.
            more = {"tags": ["t"]} if n % 4 == 2 else {}
            task = await completed(shelf, payload, **more)
            book.append(End(task.uuid, 1, "COMPLETED", hashed(payload, [payload], None)))
    await lives_twice(shelf, book)


async def completed(shelf: ArchiverHarness, payload: object, **more: Any) -> TaskId:
    """A task whose result contains its payload."""
    await shelf.harness.queue.enqueue("code", payload, **more)
    (lease,) = await shelf.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete([payload])
    return lease.id


async def lives_twice(shelf: ArchiverHarness, book: list[End]) -> None:
    """A dead task is retried with another payload: its lives have different contents."""
    first, second = {"n": len(book), "life": 1}, {"n": len(book), "life": 2}
    lease = await held(shelf, first)
    await lease.fail("error", "boom")
    await shelf.harness.queue.dead.edit(lease.id, second)
    (again,) = await shelf.harness.queue.claim(worker="w2")
    await again.start()
    await again.complete("at last")
    book.append(End(lease.id.uuid, 1, "DEAD_LETTERED", hashed(first, None, "boom")))
    # Earlier failures stay with the task.
    book.append(End(lease.id.uuid, 2, "COMPLETED", hashed(second, "at last", "boom")))


def archived(shelf: ArchiverHarness) -> list[End]:
    """The rows of the archive; the digest of each row is that of its bytes."""
    rows = shelf.query(
        "SELECT id, life, state, definition, result, coalesce(cancel_reason, error), digest,"
        " round(extract(epoch FROM finished_at) * 1000)::bigint FROM rqueue.task_lives"
    )
    found = []
    for id, life, state, definition, result, why, digest, ms in rows:
        asked, got = bytes(definition), bytes(result or b"")
        whole = f"{life} {state} {ms} {len(asked)} ".encode() + asked + got
        assert bytes(digest) == sha256(whole).digest()[:16]
        payload = json.loads(asked)["p"]
        found.append(End(id, life, state, hashed(payload, json.loads(got or b"null"), why)))
    return found


async def more_than(shelf: ArchiverHarness, rows: int) -> None:
    """Waits for a number of rows: some archiver is at work then."""

    async def enough() -> bool:
        return shelf.count() > rows

    await until(enough)


async def age(shelf: ArchiverHarness) -> None:
    """Ages pending entries as if their consumers had been silent for long."""
    client, outbox = shelf.harness.client, shelf.harness.keys.outbox()
    for held in await client.xpending_range(outbox, GROUP, "-", "+", 1000):
        await client.xclaim(
            outbox, GROUP, held["consumer"], 0, [held["message_id"]], idle=120_000, justid=True
        )


@pytest.mark.timeout(240)
async def test_killed_archivers_and_a_restarted_postgres_neither_lose_nor_duplicate_rows(
    shelf: ArchiverHarness, valkey: Server, own_pg: Database
) -> None:
    book: list[End] = []
    with ExitStack() as stack:
        for number in range(ROUNDS):
            crew = [stack.enter_context(killed(archiver(valkey, own_pg))) for _ in range(2)]
            await ends(shelf, book)
            await more_than(shelf, len(book) // 3)
            for process in crew:
                process.kill()
            if number % 2:
                own_pg.kill()
                own_pg.start()

    while await shelf.outbox():
        await age(shelf)
        await asyncio.gather(shelf.archiver.tick(), return_exceptions=True)

    assert sorted(archived(shelf)) == sorted(book)
    assert (shelf.count("conflicts"), shelf.count("quarantine")) == (0, 0)
    assert (await shelf.harness.queue.counts()).outbox == 0
