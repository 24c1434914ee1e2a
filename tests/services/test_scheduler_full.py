"""A full server still has a leader, and its services still clear and repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.services.janitor import Janitor
from rqueue.services.sweeper import Sweeper
from rqueue.store.leading import lead, yield_lead
from rqueue.store.urgency import Urgency, rescore
from tests.house import House
from tests.lua.queue.broken import one_of_each
from tests.services.standin import Ticking, candidate, running

LIMITS = ("maxmemory", "maxmemory-policy")


@pytest.fixture
async def full(house: House) -> AsyncIterator[House]:
    """A house with a task in every state, whose server has no memory to give."""
    await one_of_each(house)
    before = {name: (await house.client.config_get(name))[name] for name in LIMITS}
    try:
        await house.client.config_set("maxmemory-policy", "noeviction")
        await house.client.config_set("maxmemory", "1")
        yield house
    finally:
        for name, value in before.items():
            await house.client.config_set(name, value)


async def test_a_full_server_takes_a_leader_and_lets_it_go(full: House) -> None:
    service = Ticking()

    async with running(candidate(full, "a", service)):
        await service.ticked(1)

    assert (await lead(full.queue.shard, "b", ttl_ms=1000)).owner == "b"
    assert await yield_lead(full.queue.shard, "b") is True


async def test_a_full_server_lets_the_services_work(full: House) -> None:
    task = (await full.client.zrange(full.keys.delayed(), 0, 0))[0].decode()
    await full.client.zrem(full.keys.delayed(), task)

    swept, _ = await asyncio.gather(
        Sweeper(full.queue.shard).tick(), Janitor(full.queue.shard).tick()
    )

    assert swept.mended == 1
    assert await full.client.zscore(full.keys.delayed(), task) is not None
    assert await rescore(full.queue.shard, [Urgency(task, 1, 0)]) == ["OK"]
