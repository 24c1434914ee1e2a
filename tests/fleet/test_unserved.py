"""Tasks that no live worker can run are reported after a while, once for each lane."""

from __future__ import annotations

from rqueue.core.workers import Registration, drain
from rqueue.fleet.unserved import Reported, UnservedReporter
from rqueue.settings.load import Settings
from tests.harness import NAME, Harness
from tests.lua.worker.registered import register_worker
from tests.lua.worker.test_unserved import age, events

CODE = Registration(types=("code",))


def a_reporter(harness: Harness, **settings: float) -> UnservedReporter:
    return UnservedReporter(
        harness.queue._internals.shard, Settings(name=NAME, url="redis://nowhere", **settings)
    )


async def test_an_empty_queue_has_nothing_unserved(harness: Harness) -> None:
    assert await a_reporter(harness).tick() == Reported(0)
    assert await harness.dump() == {}


async def test_tasks_that_a_live_worker_can_run_are_not_reported(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a", CODE)
    await harness.queue.enqueue("code")
    before = await harness.dump()

    assert await a_reporter(harness).tick() == Reported(0)
    assert await harness.dump() == before


async def test_an_unserved_lane_is_reported_once(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a", CODE)
    first = await harness.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    await harness.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    reporter = a_reporter(harness)
    assert await reporter.tick() == Reported(0)
    await age(harness, 1)

    assert [await reporter.tick(), await a_reporter(harness).tick()] == [Reported(1), Reported(0)]

    assert await events(harness) == [
        {
            "event": "task.unserved",
            "task": first.id.ulid,
            "detail": "2 ready, need type code, agent ada, capabilities gpu",
        }
    ]


async def test_a_draining_worker_serves_no_lane_and_a_new_worker_does(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a", CODE)
    await drain(harness.queue._internals.shard, "w1")
    await harness.queue.enqueue("code")
    reporter = a_reporter(harness)
    await reporter.tick()
    assert await harness.client.exists(harness.keys.unserved()) == 1

    await register_worker(harness, "w2", "w2/a", CODE)
    await reporter.tick()

    assert await harness.client.exists(harness.keys.unserved()) == 0


async def test_the_interval_follows_the_configured_time(harness: Harness) -> None:
    assert a_reporter(harness).interval_sec == 15.0
    assert a_reporter(harness, unserved_after_sec=8).interval_sec == 2.0
    assert a_reporter(harness, unserved_after_sec=0.5).interval_sec == 1.0
