"""What no live worker can do is an event after a while, once for each lane."""

from __future__ import annotations

from rqueue.model.worker import Registration
from rqueue.services.lookout import Lookout, Seen
from rqueue.settings import Settings
from rqueue.store.fleet import drain
from tests.house import NAME, House
from tests.lua.queue.test_unserved import age, events
from tests.lua.worker.crew import enrol

CODE = Registration(types=("code",))


def a_lookout(house: House, **settings: float) -> Lookout:
    return Lookout(house.queue.shard, Settings(name=NAME, url="redis://nowhere", **settings))


async def test_an_empty_queue_has_nothing_unserved(house: House) -> None:
    assert await a_lookout(house).tick() == Seen(0)
    assert await house.dump() == {}


async def test_what_a_live_worker_can_do_is_not_told(house: House) -> None:
    await enrol(house, "w1", "w1/a", CODE)
    await house.queue.enqueue("code")
    before = await house.dump()

    assert await a_lookout(house).tick() == Seen(0)
    assert await house.dump() == before


async def test_what_nobody_can_do_is_told_once_for_all_tasks_of_a_lane(house: House) -> None:
    await enrol(house, "w1", "w1/a", CODE)
    first = await house.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    await house.queue.enqueue("code", required_capabilities=["gpu"], agent_name="ada")
    lookout = a_lookout(house)
    assert await lookout.tick() == Seen(0)
    await age(house, 1)

    assert [await lookout.tick(), await a_lookout(house).tick()] == [Seen(1), Seen(0)]

    assert await events(house) == [
        {
            "event": "task.unserved",
            "task": first.id.ulid,
            "detail": "2 ready, need type code, agent ada, capabilities gpu",
        }
    ]


async def test_a_worker_that_drains_serves_nobody_and_another_ends_it(house: House) -> None:
    await enrol(house, "w1", "w1/a", CODE)
    await drain(house.queue.shard, "w1")
    await house.queue.enqueue("code")
    lookout = a_lookout(house)
    await lookout.tick()
    assert await house.client.exists(house.keys.unserved()) == 1

    await enrol(house, "w2", "w2/a", CODE)
    await lookout.tick()

    assert await house.client.exists(house.keys.unserved()) == 0


async def test_it_looks_often_enough_for_the_time_that_is_set(house: House) -> None:
    assert a_lookout(house).interval_sec == 15.0
    assert a_lookout(house, unserved_after_sec=8).interval_sec == 2.0
    assert a_lookout(house, unserved_after_sec=0.5).interval_sec == 1.0
