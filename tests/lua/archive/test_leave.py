"""leave: the queue has no archive any more; refused while tasks wait for it."""

from __future__ import annotations

import pytest

from rqueue.core.outbox import Entry, archived, join, leave
from rqueue.errors import OutboxNotEmpty
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import run_move


async def test_waiting_entries_refuse_the_leave(harness: Harness) -> None:
    await join(harness.queue._internals.shard)
    await (await harness.running()).complete()
    before = await everything(harness)

    assert await run_move(harness, "archive/leave") == ["FULL", 1]
    with pytest.raises(OutboxNotEmpty, match="1 entries"):
        await leave(harness.queue._internals.shard)

    assert await everything(harness) == before


async def test_tasks_that_end_after_a_leave_expire(harness: Harness) -> None:
    await join(harness.queue._internals.shard)
    await (await harness.running()).complete()
    entries = await harness.client.xrange(harness.keys.outbox())
    await archived(
        harness.queue._internals.shard, [Entry(name.decode(), []) for name, _ in entries]
    )

    assert await run_move(harness, "archive/leave") == ["OK"]

    assert "archiving" not in await everything(harness)
    lease = await harness.running()
    await lease.complete()
    assert await harness.client.xlen(harness.keys.outbox()) == 0
    assert await harness.client.pttl(harness.keys.task(lease.id.ulid)) > 0


async def test_a_leave_without_an_archive_gets_the_same_reply(harness: Harness) -> None:
    assert await run_move(harness, "archive/leave") == ["OK"]
    assert await run_move(harness, "archive/leave") == ["OK"]

    assert await everything(harness) == {}
