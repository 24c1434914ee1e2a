"""What no live worker can do is an event after a while, once for each lane."""

from __future__ import annotations

from rqueue.core.workers import Registration, drain
from rqueue.fleet.unserved import Seen, UnservedReporter
from rqueue.settings.load import Settings
from tests.harness import NAME, Harness
from tests.lua.worker.crew import enrol
from tests.lua.worker.test_unserved import age, events

CODE = Registration(types=("code",))


def a_lookout(harness: Harness, **settings: float) -> UnservedReporter:
    return UnservedReporter(
        harness.queue._internals.shard, Settings(name=NAME, url="redis://nowhere", **settings)
    )


async def test_an_empty_queue_has_nothing_unserved(harness: Harness) -> None:
    assert await a_lookout(harness).tick() == Seen(0)
    assert await harness.dump() == {}


async def test_what_a_live_worker_can_do_is_not_told(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a", CODE)
    await harness.queue.enqueue("code")
    before = await harness.dump()

    assert await a_lookout(harness).tick() == Seen(0)
    assert await harness.dump() == before


async def test_what_nobody_can_do_is_told_once_for_all_tasks_of_a_lane(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a", CODE)
    first = await harness.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    await harness.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    lookout = a_lookout(harness)
    assert await lookout.tick() == Seen(0)
    await age(harness, 1)

    assert [await lookout.tick(), await a_lookout(harness).tick()] == [Seen(1), Seen(0)]

    assert await events(harness) == [
        {
            "event": "task.unserved",
            "task": first.id.ulid,
            "detail": "2 ready, need type code, agent ada, capabilities gpu",
        }
    ]


async def test_a_worker_that_drains_serves_nobody_and_another_ends_it(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a", CODE)
    await drain(harness.queue._internals.shard, "w1")
    await harness.queue.enqueue("code")
    lookout = a_lookout(harness)
    await lookout.tick()
    assert await harness.client.exists(harness.keys.unserved()) == 1

    await enrol(harness, "w2", "w2/a", CODE)
    await lookout.tick()

    assert await harness.client.exists(harness.keys.unserved()) == 0


async def test_it_looks_often_enough_for_the_time_that_is_set(harness: Harness) -> None:
    assert a_lookout(harness).interval_sec == 15.0
    assert a_lookout(harness, unserved_after_sec=8).interval_sec == 2.0
    assert a_lookout(harness, unserved_after_sec=0.5).interval_sec == 1.0
