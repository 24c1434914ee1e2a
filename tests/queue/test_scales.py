"""Priorities on other scales, and the profiles that set them for a whole queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqueue import State
from tests.harness import Harness, build
from tests.servers import Server


@pytest.mark.parametrize(
    ("scale", "written", "native"),
    [
        ("1-10", 10, 0),
        ("1-10", 8, 20),
        ("1-10", 1, 90),
        ("0-3", 0, 0),
        ("0-3", 2, 45),
        ("0-3", 3, 70),
    ],
)
async def test_a_priority_may_be_written_on_another_scale(
    alone: Harness, scale: str, written: int, native: float
) -> None:
    handle = await alone.queue.enqueue("code", priority=written, scale=scale)
    (again,) = await alone.queue.enqueue_many(
        [{"type": "code", "priority": written, "scale": scale}]
    )

    assert (await handle.task()).spec.priority == native
    assert (await again.task()).spec.priority == native


async def test_the_profile_reference_follows_document_a(server: Server) -> None:
    harness = build(server.connection(), server.client(), profile="reference")
    queue = harness.queue

    urgent = await queue.enqueue("code", {"n": 1}, priority=10)
    same = await queue.enqueue("code", {"n": 1}, priority=1)
    idle = await queue.enqueue("code", {"n": 2}, priority=1)

    assert (same.created, same.id) == (False, urgent.id)
    assert [lease.id for lease in await queue.claim(worker="w1", n=3)] == [urgent.id, idle.id]
    assert (await urgent.task()).spec.priority == 0
    assert queue._internals.drafter.plain_lane("code").rate == 0
    await close(harness)


async def test_the_profile_automechanica_follows_document_c(server: Server) -> None:
    harness = build(server.connection(), server.client(), profile="automechanica")
    queue = harness.queue

    low, first, second = [await queue.enqueue("fitment", priority=n) for n in (3, 0, 0)]
    leases = await queue.claim(worker="w1", n=3)
    await leases[0].start()

    assert [lease.id for lease in leases] == [first.id, second.id, low.id]
    assert await leases[0].fail("error", "no") is State.RETRYING
    failed = await first.task()
    assert failed.available_at is not None
    assert failed.failure_history[0].at is not None
    waits = failed.available_at - failed.failure_history[0].at
    assert timedelta(seconds=4.5) < waits < timedelta(seconds=5.5)
    await close(harness)


async def close(harness: Harness) -> None:
    await harness.queue.aclose()
    await harness.client.aclose()
