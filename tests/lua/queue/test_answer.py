"""answer: parked claims that one call did not reach are answered by the next."""

from __future__ import annotations

from rqueue.store.lanes import read_lanes
from rqueue.store.queue import answer
from rqueue.store.scripts import Argument
from rqueue.store.submits import submit
from tests.house import House
from tests.lua.task.afterwards import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"numbers": "[1]", "tries": 100}


async def beside_work(house: House, waiters: int, tasks: int) -> list[str]:
    """Claims that wait although there is work: the last pause left nobody to tell them."""
    boxes = [(await parked(house, f"w{at + 2}")).box for at in range(waiters)]
    await house.queue.pause()
    await house.queue.enqueue_many([house.queue.call("code")] * tasks)
    await house.client.delete(house.keys.paused())
    return boxes


async def test_who_waits_beside_work_is_answered(house: House) -> None:
    waiter = await parked(house)
    await house.queue.pause()
    task = (await house.queue.enqueue("code")).id
    await house.client.delete(house.keys.paused())

    said = await ask(house, "queue/answer", TERMS)

    (line,) = await mail(house, waiter)
    assert said == ["OK", 0, "0"]
    assert await afterwards(house, a=task) == LANES | PARKED | {
        "task:a": {
            "def0": "*", "entry": "*", "holder": "* 0 w2", "lane": "1", "score": "*",
            "state": "CLAIMED", "token": "1:*",
        },
        "ready": (["a"], {"a": "w2"}),
        "handoffs": ["a:1"],
        "mail:*": [line.replace(task.ulid, "a")],
        "stats": {"1:CLAIMED": 1, "submitted": 1},
        "waiter:w2": "*",
        "workers": ["w2"],
    }  # fmt: skip


async def test_the_longest_waiting_is_first(house: House) -> None:
    first, second = await beside_work(house, waiters=2, tasks=1)

    await ask(house, "queue/answer", TERMS)

    assert await house.client.exists(house.keys.mail(first)) == 1
    assert await house.client.exists(house.keys.mail(second)) == 0


async def test_more_is_said_until_all_are_answered(house: House) -> None:
    await beside_work(house, waiters=5, tasks=5)

    steps = [await ask(house, "queue/answer", TERMS | {"tries": 2}) for _ in range(3)]

    assert steps == [["OK", 1, "0"], ["OK", 1, "0"], ["OK", 0, "0"]]
    assert (await afterwards(house))["stats"] == {"1:CLAIMED": 5, "submitted": 5}


async def test_one_whose_wait_is_over_is_sent_away(house: House) -> None:
    waiter = await parked(house)
    await house.client.hset(house.keys.waiter(waiter.name), "until", 1)
    await house.queue.enqueue("code")

    found = await afterwards(house)

    assert not {"waiting:*", "mail:*", "handoffs"} & set(found)
    assert await ask(house, "queue/answer", TERMS) == ["OK", 0, "0"]


async def test_nobody_is_asked_for_ever_who_cannot_be_served(house: House) -> None:
    await parked(house, "w2")
    await parked(house, "w3")
    await house.queue.pause()
    await house.queue.enqueue("code")
    before = await house.dump()

    assert await ask(house, "queue/answer", TERMS | {"tries": 1}) == ["OK", 0, "0"]
    assert await house.dump() == before


async def test_without_work_nothing_happens(house: House) -> None:
    await parked(house)
    before = await house.dump()

    assert await ask(house, "queue/answer", TERMS) == ["OK", 0, "0"]
    assert await house.dump() == before


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await beside_work(house, waiters=1, tasks=2)
    first = await ask(house, "queue/answer", TERMS)
    before = await house.dump()

    assert await ask(house, "queue/answer", TERMS) == first == ["OK", 0, "0"]
    assert await house.dump() == before


async def test_the_store_asks_for_every_lane(house: House) -> None:
    await beside_work(house, waiters=1, tasks=1)
    await submit(house.queue.shard, [house.queue.drafter.draft(house.queue.call("review"))])

    assert await answer(house.queue.shard, await read_lanes(house.queue.shard)) == (False, 0)

    assert (await afterwards(house))["stats"] == {"1:CLAIMED": 1, "submitted": 2}
