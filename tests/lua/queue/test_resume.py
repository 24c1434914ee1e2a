"""resume: a pause ends, and who waited for what it held back is answered at once."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"what": "queue", "lanes": "[1]", "tries": 100}


async def test_a_resumed_queue_hands_out_again(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    await harness.queue.pause()

    said = await ask(harness, "queue/resume", TERMS)

    assert said == ["OK", 0]
    assert await afterwards(harness, a=task) == LANES | {
        "task:a": {"def0": "*", "entry": "*", "lane": "1", "score": "*", "state": "READY"},
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    assert lease.id == task


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_who_waited_is_answered(harness: Harness, what: str) -> None:
    waiter = await parked(harness)
    await ask(harness, "queue/pause", {"what": what})
    task = (await harness.queue.enqueue("code")).id
    assert await mail(harness, waiter) == []

    said = await ask(harness, "queue/resume", TERMS | {"what": what})

    (line,) = await mail(harness, waiter)
    assert said == ["OK", 0]
    assert line.startswith(f"tasks 1 {task.ulid} 1:")
    assert set(await afterwards(harness, a=task)) == {
        *LANES, *PARKED, "waiter:w2", "workers", "task:a", "ready", "stats", "handoffs", "mail:*",
    }  # fmt: skip


async def test_another_pause_still_holds(harness: Harness) -> None:
    waiter = await parked(harness)
    for what in ("queue", "type=code"):
        await ask(harness, "queue/pause", {"what": what})
    await harness.queue.enqueue("code")

    assert await ask(harness, "queue/resume", TERMS) == ["OK", 0]

    assert await mail(harness, waiter) == []
    assert (await afterwards(harness))["paused"] == ["type=code"]


async def test_more_is_said_where_not_all_who_wait_were_looked_at(harness: Harness) -> None:
    one, two = await parked(harness, "w2"), await parked(harness, "w3")
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 2)

    assert await ask(harness, "queue/resume", TERMS | {"tries": 1}) == ["OK", 1]

    assert (len(await mail(harness, one)), len(await mail(harness, two))) == (1, 0)


async def test_nothing_more_is_said_where_nobody_can_be_served(harness: Harness) -> None:
    await parked(harness, "w2")
    await parked(harness, "w3")
    for what in ("queue", "type=code"):
        await ask(harness, "queue/pause", {"what": what})
    await harness.queue.enqueue("code")

    assert await ask(harness, "queue/resume", TERMS | {"tries": 1}) == ["OK", 0]


async def test_all_who_wait_are_answered_in_the_end(harness: Harness) -> None:
    waiters = [await parked(harness, f"w{at}") for at in range(120)]
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 120)

    await harness.queue.resume()

    assert [len(await mail(harness, waiter)) for waiter in waiters] == [1] * 120


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.pause()
    first = await ask(harness, "queue/resume", TERMS)
    before = await everything(harness)

    assert await ask(harness, "queue/resume", TERMS) == first
    assert await everything(harness) == before
