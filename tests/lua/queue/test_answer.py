"""answer: waiting claims that one call did not reach are answered by the next."""

from __future__ import annotations

from rqueue.core.counts import answer
from rqueue.core.submit import submit
from rqueue.store.lanes import read_lanes
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import (
    LANES,
    WAITING_CLAIM,
    all_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {"numbers": "[1]", "tries": 100}


async def beside_work(harness: Harness, waiters: int, tasks: int) -> list[str]:
    """Claims that wait beside READY tasks, as after a lost resume."""
    boxes = [(await waiting_claim(harness, f"w{at + 2}")).mailbox for at in range(waiters)]
    await harness.queue.pause()
    await harness.queue.enqueue_many([harness.queue.call("code")] * tasks)
    await harness.client.delete(harness.keys.paused())
    return boxes


async def test_a_waiting_claim_beside_ready_tasks_is_answered(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await harness.queue.pause()
    task = (await harness.queue.enqueue("code")).id
    await harness.client.delete(harness.keys.paused())

    reply = await run_move(harness, "queue/answer", TERMS)

    (line,) = await mailbox_lines(harness, waiter)
    assert reply == ["OK", 0, "0"]
    assert await all_keys(harness, a=task) == LANES | WAITING_CLAIM | {
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


async def test_the_longest_waiting_claim_is_first(harness: Harness) -> None:
    first, second = await beside_work(harness, waiters=2, tasks=1)

    await run_move(harness, "queue/answer", TERMS)

    assert await harness.client.exists(harness.keys.mail(first)) == 1
    assert await harness.client.exists(harness.keys.mail(second)) == 0


async def test_the_reply_has_more_until_all_are_answered(harness: Harness) -> None:
    await beside_work(harness, waiters=5, tasks=5)

    steps = [await run_move(harness, "queue/answer", TERMS | {"tries": 2}) for _ in range(3)]

    assert steps == [["OK", 1, "0"], ["OK", 1, "0"], ["OK", 0, "0"]]
    assert (await all_keys(harness))["stats"] == {"1:CLAIMED": 5, "submitted": 5}


async def test_a_claim_whose_wait_has_ended_is_removed(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await harness.client.hset(harness.keys.waiter(waiter.name), "until", 1)
    await harness.queue.enqueue("code")

    found = await all_keys(harness)

    assert not {"waiting:*", "mail:*", "handoffs"} & set(found)
    assert await run_move(harness, "queue/answer", TERMS) == ["OK", 0, "0"]


async def test_claims_that_cannot_be_served_are_not_tried_forever(harness: Harness) -> None:
    await waiting_claim(harness, "w2")
    await waiting_claim(harness, "w3")
    await harness.queue.pause()
    await harness.queue.enqueue("code")
    before = await harness.dump()

    assert await run_move(harness, "queue/answer", TERMS | {"tries": 1}) == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_without_work_nothing_happens(harness: Harness) -> None:
    await waiting_claim(harness)
    before = await harness.dump()

    assert await run_move(harness, "queue/answer", TERMS) == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await beside_work(harness, waiters=1, tasks=2)
    first = await run_move(harness, "queue/answer", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "queue/answer", TERMS) == first == ["OK", 0, "0"]
    assert await harness.dump() == before


async def test_the_client_answers_for_every_lane(harness: Harness) -> None:
    await beside_work(harness, waiters=1, tasks=1)
    await submit(
        harness.queue._internals.shard,
        [harness.queue._internals.drafter.draft(harness.queue.call("review"))],
    )

    assert await answer(
        harness.queue._internals.shard, await read_lanes(harness.queue._internals.shard)
    ) == (False, 0)

    assert (await all_keys(harness))["stats"] == {"1:CLAIMED": 1, "submitted": 2}
