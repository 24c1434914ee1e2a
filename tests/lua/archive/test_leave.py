"""leave: the queue has no archive any more, unless something waits for it."""

from __future__ import annotations

import pytest

from rqueue.core.outbox import Entry, archived, join, leave
from rqueue.errors import OutboxNotEmpty
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import ask


async def test_what_waits_holds_it_back(harness: Harness) -> None:
    await join(harness.queue._internals.shard)
    await (await harness.running()).complete()
    before = await everything(harness)

    assert await ask(harness, "archive/leave") == ["FULL", 1]
    with pytest.raises(OutboxNotEmpty, match="1 entries"):
        await leave(harness.queue._internals.shard)

    assert await everything(harness) == before


async def test_then_what_ends_is_kept_for_nobody(harness: Harness) -> None:
    await join(harness.queue._internals.shard)
    await (await harness.running()).complete()
    entries = await harness.client.xrange(harness.keys.outbox())
    await archived(
        harness.queue._internals.shard, [Entry(name.decode(), []) for name, _ in entries]
    )

    assert await ask(harness, "archive/leave") == ["OK"]

    assert "archiving" not in await everything(harness)
    lease = await harness.running()
    await lease.complete()
    assert await harness.client.xlen(harness.keys.outbox()) == 0
    assert await harness.client.pttl(harness.keys.task(lease.id.ulid)) > 0


async def test_sent_again_or_never_joined_it_says_the_same(harness: Harness) -> None:
    assert await ask(harness, "archive/leave") == ["OK"]
    assert await ask(harness, "archive/leave") == ["OK"]

    assert await everything(harness) == {}
