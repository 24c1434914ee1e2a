"""A new task is delivered directly to a registered worker that waits."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.task.keyspace import mailbox_lines, waiting_claim
from tests.lua.worker.registered import register_worker


async def zadds(harness: Harness) -> int:
    """How often the server has put something into a sorted set."""
    found = await harness.client.info("commandstats")
    # One node of a cluster answers under its name.
    stats = found if "cmdstat_zadd" in found else next(iter(found.values()))
    return int(stats["cmdstat_zadd"]["calls"])


async def test_a_task_is_delivered_to_a_registered_worker_without_entering_its_lane(
    harness: Harness,
) -> None:
    waiter = await waiting_claim(harness)
    await register_worker(harness, "w2", waiter.name)
    before = await zadds(harness)

    await harness.queue.enqueue("code")

    (line,) = await mailbox_lines(harness, waiter)
    assert line.startswith("tasks ")
    # Its delivery; otherwise it would have entered its lane as well.
    assert await zadds(harness) == before + 1


async def test_nothing_is_delivered_to_a_draining_worker(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await register_worker(harness, "w2", waiter.name)
    await harness.queue.fleet.drain("w2")

    await harness.queue.enqueue("code")

    assert [line.split(" ")[0] for line in await mailbox_lines(harness, waiter)] == ["drain"]
