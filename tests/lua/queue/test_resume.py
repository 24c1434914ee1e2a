"""resume: a pause ends, and who waited for what it held back is answered at once."""

from __future__ import annotations

import pytest

from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"what": "queue", "lanes": "[1]", "tries": 100}


async def test_a_resumed_queue_hands_out_again(house: House) -> None:
    task = (await house.queue.enqueue("code")).id
    await house.queue.pause()

    said = await ask(house, "queue/resume", TERMS)

    assert said == ["OK", 0]
    assert await afterwards(house, a=task) == LANES | {
        "task:a": {"def0": "*", "entry": "*", "lane": "1", "score": "*", "state": "READY"},
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    assert lease.id == task


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_who_waited_is_answered(house: House, what: str) -> None:
    waiter = await parked(house)
    await ask(house, "queue/pause", {"what": what})
    task = (await house.queue.enqueue("code")).id
    assert await mail(house, waiter) == []

    said = await ask(house, "queue/resume", TERMS | {"what": what})

    (line,) = await mail(house, waiter)
    assert said == ["OK", 0]
    assert line.startswith(f"tasks 1 {task.ulid} 1:")
    assert set(await afterwards(house, a=task)) == {
        *LANES, *PARKED, "waiter:w2", "workers", "task:a", "ready", "stats", "handoffs", "mail:*",
    }  # fmt: skip


async def test_another_pause_still_holds(house: House) -> None:
    waiter = await parked(house)
    for what in ("queue", "type=code"):
        await ask(house, "queue/pause", {"what": what})
    await house.queue.enqueue("code")

    assert await ask(house, "queue/resume", TERMS) == ["OK", 0]

    assert await mail(house, waiter) == []
    assert (await afterwards(house))["paused"] == ["type=code"]


async def test_more_is_said_where_not_all_who_wait_were_looked_at(house: House) -> None:
    one, two = await parked(house, "w2"), await parked(house, "w3")
    await house.queue.pause()
    await house.queue.enqueue_many([house.queue.call("code")] * 2)

    assert await ask(house, "queue/resume", TERMS | {"tries": 1}) == ["OK", 1]

    assert (len(await mail(house, one)), len(await mail(house, two))) == (1, 0)


async def test_nothing_more_is_said_where_nobody_can_be_served(house: House) -> None:
    await parked(house, "w2")
    await parked(house, "w3")
    for what in ("queue", "type=code"):
        await ask(house, "queue/pause", {"what": what})
    await house.queue.enqueue("code")

    assert await ask(house, "queue/resume", TERMS | {"tries": 1}) == ["OK", 0]


async def test_all_who_wait_are_answered_in_the_end(house: House) -> None:
    waiters = [await parked(house, f"w{at}") for at in range(120)]
    await house.queue.pause()
    await house.queue.enqueue_many([house.queue.call("code")] * 120)

    await house.queue.resume()

    assert [len(await mail(house, waiter)) for waiter in waiters] == [1] * 120


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    await house.queue.enqueue("code")
    await house.queue.pause()
    first = await ask(house, "queue/resume", TERMS)
    before = await everything(house)

    assert await ask(house, "queue/resume", TERMS) == first
    assert await everything(house) == before
