"""A full server refuses new tasks with a typed error; submitted tasks still run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue import Handle, State
from rqueue.errors import Overloaded
from tests.harness import Harness, build
from tests.servers import Server

ROOM = 300_000


@pytest.fixture
async def full(server: Server) -> AsyncIterator[Harness]:
    """Returns a harness whose server takes no more data once `fill` was called."""
    client = server.client()
    harness = build(server.connection(), client)
    yield harness
    await limit(harness, 0)
    await harness.queue.aclose()
    await client.aclose()


async def limit(harness: Harness, size: int) -> None:
    await harness.client.config_set("maxmemory", size)


async def used(harness: Harness) -> int:
    return int((await harness.client.info("memory"))["used_memory"])


async def test_a_full_server_refuses_new_tasks_and_drains(full: Harness) -> None:
    handle = await full.queue.enqueue("code")
    waiting = await full.queue.enqueue("code", delay=60)
    await limit(full, 1)

    for call in (
        full.queue.enqueue("code"),
        full.queue.enqueue("code", tags=["a"], idempotency_key="k"),
        full.queue.enqueue_many([{"type": "code"}] * 3),
        full.queue.enqueue_document({"task_type": "code"}),
    ):
        with pytest.raises(Overloaded) as caught:
            await call
        assert "memory" in caught.value.reason
    (lease,) = await full.queue.claim(worker="w1")
    await lease.start()
    await lease.renew()
    await lease.complete({"n": 1})

    assert await handle.result(timeout=5) == {"n": 1}
    assert await full.queue.cancel(waiting.id) is True
    assert (await full.queue.counts()).submitted == 2
    await limit(full, 0)
    assert (await full.queue.enqueue("code")).created


@pytest.mark.parametrize("how", ["gather", "many"])
async def test_every_refused_task_is_missing_and_every_accepted_task_is_confirmed(
    full: Harness, how: str
) -> None:
    payload = "x" * 2000
    await full.queue.enqueue("code", "first")
    await limit(full, await used(full) + ROOM)

    if how == "gather":
        calls = (full.queue.enqueue("code", payload) for _ in range(1000))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    else:
        with pytest.raises(Overloaded):
            await full.queue.enqueue_many([{"type": "code", "payload": payload}] * 1000)
        answers = []
    await limit(full, 0)

    there = (await full.queue.counts())[State.READY] - 1
    assert 0 < there < 1000
    if how == "gather":
        refused = [answer for answer in answers if isinstance(answer, Overloaded)]
        taken = [answer for answer in answers if isinstance(answer, Handle)]
        assert (len(taken), len(refused)) == (there, 1000 - there)
        assert await taken[-1].status() is State.READY
