"""A Redis without free memory still has a leader, whose services still clean up and repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.maintenance.janitor import Janitor
from rqueue.maintenance.rescorer import Urgency, rescore
from rqueue.maintenance.sweeper import Sweeper
from rqueue.process.scheduler import lead, yield_term
from tests.harness import Harness
from tests.lua.repair.broken import one_of_each
from tests.process.fake_services import Ticking, candidate, running

LIMITS = ("maxmemory", "maxmemory-policy")


@pytest.fixture
async def full(harness: Harness) -> AsyncIterator[Harness]:
    """A queue with a task in every state, on a Redis without free memory."""
    await one_of_each(harness)
    before = {name: (await harness.client.config_get(name))[name] for name in LIMITS}
    try:
        await harness.client.config_set("maxmemory-policy", "noeviction")
        await harness.client.config_set("maxmemory", "1")
        yield harness
    finally:
        for name, value in before.items():
            await harness.client.config_set(name, value)


async def test_a_full_server_grants_and_ends_terms(full: Harness) -> None:
    service = Ticking()

    async with running(candidate(full, "a", service)):
        await service.ticked(1)

    assert (await lead(full.queue._internals.shard, "b", ttl_ms=1000)).owner == "b"
    assert await yield_term(full.queue._internals.shard, "b") is True


async def test_the_services_work_on_a_full_server(full: Harness) -> None:
    task = (await full.client.zrange(full.keys.delayed(), 0, 0))[0].decode()
    await full.client.zrem(full.keys.delayed(), task)

    swept, _ = await asyncio.gather(
        Sweeper(full.queue._internals.shard).tick(), Janitor(full.queue._internals.shard).tick()
    )

    assert swept.mended == 1
    assert await full.client.zscore(full.keys.delayed(), task) is not None
    assert await rescore(full.queue._internals.shard, [Urgency(task, 1, 0)]) == ["OK"]
