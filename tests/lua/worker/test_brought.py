"""A task that comes is brought to a registered worker that waits by the short way, too."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.task.keys_after import mail, parked
from tests.lua.worker.crew import enrol


async def zadds(harness: Harness) -> int:
    """How often the server has put something into a sorted set."""
    found = await harness.client.info("commandstats")
    # One node of a cluster answers under its name.
    stats = found if "cmdstat_zadd" in found else next(iter(found.values()))
    return int(stats["cmdstat_zadd"]["calls"])


async def test_a_registered_worker_is_brought_a_task_past_its_lane(harness: Harness) -> None:
    waiter = await parked(harness)
    await enrol(harness, "w2", waiter.name)
    before = await zadds(harness)

    await harness.queue.enqueue("code")

    (line,) = await mail(harness, waiter)
    assert line.startswith("tasks ")
    # Its hand-off; by the long way it would have stood in its lane as well.
    assert await zadds(harness) == before + 1


async def test_one_that_is_to_drain_is_brought_nothing(harness: Harness) -> None:
    waiter = await parked(harness)
    await enrol(harness, "w2", waiter.name)
    await harness.queue.fleet.drain("w2")

    await harness.queue.enqueue("code")

    assert [line.split(" ")[0] for line in await mail(harness, waiter)] == ["drain"]
