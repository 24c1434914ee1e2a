"""answer: parked claims that one call did not reach are answered by the next."""

from __future__ import annotations

from rqueue.core.counts import answer
from rqueue.core.submit import submit
from rqueue.store.lanes import read_lanes
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"numbers": "[1]", "tries": 100}


async def beside_work(harness: Harness, waiters: int, tasks: int) -> list[str]:
    """Claims that wait although there is work: the last pause left nobody to tell them."""
    boxes = [(await parked(harness, f"w{at + 2}")).mailbox for at in range(waiters)]
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * tasks)
    await harness.client.delete(harness.keys.paused())
    return boxes


async def test_who_waits_beside_work_is_answered(harness: Harness) -> None:
    waiter = await parked(harness)
    await harness.queue.pause()
    task = (await harness.queue.enqueue("code")).id
    await harness.client.delete(harness.keys.paused())

    said = await ask(harness, "queue/answer", TERMS)

    (line,) = await mail(harness, waiter)
    assert said == ["OK", 0, "0"]
    assert await afterwards(harness, a=task) == LANES | PARKED | {
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


async def test_the_longest_waiting_is_first(harness: Harness) -> None:
    first, second = await beside_work(harness, waiters=2, tasks=1)

    await ask(harness, "queue/answer", TERMS)

    assert await harness.client.exists(harness.keys.mail(first)) == 1
    assert await harness.client.exists(harness.keys.mail(second)) == 0


async def test_more_is_said_until_all_are_answered(harness: Harness) -> None:
    await beside_work(harness, waiters=5, tasks=5)

    steps = [await ask(harness, "queue/answer", TERMS | {"tries": 2}) for _ in range(3)]

    assert steps == [["OK", 1, "0"], ["OK", 1, "0"], ["OK", 0, "0"]]
    assert (await afterwards(harness))["stats"] == {"1:CLAIMED": 5, "submitted": 5}


async def test_one_whose_wait_is_over_is_sent_away(harness: Harness) -> None:
    waiter = await parked(harness)
    await harness.client.hset(harness.keys.waiter(waiter.name), "until", 1)
    await harness.queue.enqueue("code")

    found = await afterwards(harness)

    assert not {"waiting:*", "mail:*", "handoffs"} & set(found)
    assert await ask(harness, "queue/answer", TERMS) == ["OK", 0, "0"]


async def test_nobody_is_asked_for_ever_who_cannot_be_served(harness: Harness) -> None:
    await parked(harness, "w2")
    await parked(harness, "w3")
    await harness.queue.pause()
    await harness.queue.enqueue("code")
    before = await harness.dump()

    assert await ask(harness, "queue/answer", TERMS | {"tries": 1}) == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_without_work_nothing_happens(harness: Harness) -> None:
    await parked(harness)
    before = await harness.dump()

    assert await ask(harness, "queue/answer", TERMS) == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await beside_work(harness, waiters=1, tasks=2)
    first = await ask(harness, "queue/answer", TERMS)
    before = await harness.dump()

    assert await ask(harness, "queue/answer", TERMS) == first == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_the_store_asks_for_every_lane(harness: Harness) -> None:
    await beside_work(harness, waiters=1, tasks=1)
    await submit(
        harness.queue._internals.shard,
        [harness.queue._internals.drafter.draft(harness.queue.call("review"))],
    )

    assert await answer(
        harness.queue._internals.shard, await read_lanes(harness.queue._internals.shard)
    ) == (False, 0)

    assert (await afterwards(harness))["stats"] == {"1:CLAIMED": 1, "submitted": 2}
