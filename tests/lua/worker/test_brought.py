"""A task that comes is brought to a registered worker that waits by the short way, too."""

from __future__ import annotations

from tests.house import House
from tests.lua.task.afterwards import mail, parked
from tests.lua.worker.crew import enrol


async def zadds(house: House) -> int:
    """How often the server has put something into a sorted set."""
    found = await house.client.info("commandstats")
    # One node of a cluster answers under its name.
    stats = found if "cmdstat_zadd" in found else next(iter(found.values()))
    return int(stats["cmdstat_zadd"]["calls"])


async def test_a_registered_worker_is_brought_a_task_past_its_lane(house: House) -> None:
    waiter = await parked(house)
    await enrol(house, "w2", waiter.name)
    before = await zadds(house)

    await house.queue.enqueue("code")

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")
    # Its hand-off; by the long way it would have stood in its lane as well.
    assert await zadds(house) == before + 1


async def test_one_that_is_to_drain_is_brought_nothing(house: House) -> None:
    waiter = await parked(house)
    await enrol(house, "w2", waiter.name)
    await house.queue.drain_worker("w2")

    await house.queue.enqueue("code")

    assert [line.split(" ")[0] for line in await mail(house, waiter)] == ["drain"]
