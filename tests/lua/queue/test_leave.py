"""leave: the queue has no archive any more, unless something waits for it."""

from __future__ import annotations

import pytest

from rqueue.errors import OutboxNotEmpty
from rqueue.store.outbox import Entry, archived, join, leave
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import ask


async def test_what_waits_holds_it_back(house: House) -> None:
    await join(house.queue.shard)
    await (await house.running()).complete()
    before = await everything(house)

    assert await ask(house, "queue/leave") == ["FULL", 1]
    with pytest.raises(OutboxNotEmpty, match="1 entries"):
        await leave(house.queue.shard)

    assert await everything(house) == before


async def test_then_what_ends_is_kept_for_nobody(house: House) -> None:
    await join(house.queue.shard)
    await (await house.running()).complete()
    entries = await house.client.xrange(house.keys.outbox())
    await archived(house.queue.shard, [Entry(name.decode(), []) for name, _ in entries])

    assert await ask(house, "queue/leave") == ["OK"]

    assert "archiving" not in await everything(house)
    lease = await house.running()
    await lease.complete()
    assert await house.client.xlen(house.keys.outbox()) == 0
    assert await house.client.pttl(house.keys.task(lease.id.ulid)) > 0


async def test_sent_again_or_never_joined_it_says_the_same(house: House) -> None:
    assert await ask(house, "queue/leave") == ["OK"]
    assert await ask(house, "queue/leave") == ["OK"]

    assert await everything(house) == {}
