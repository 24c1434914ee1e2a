"""recall: a delivery that was not started in time is taken back; a later claim is not."""

from __future__ import annotations

from rqueue.core.claim import Grant, WaitingClaim
from rqueue.core.leases import HeldLease, start
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import (
    LANES,
    WAITING_CLAIM,
    all_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {"limit": 100, "tries": 100}
KNOWN = LANES | WAITING_CLAIM | {"waiter:w2": "*", "workers": ["w2"]}


async def mailed(harness: Harness, worker: str = "w2") -> tuple[WaitingClaim, Grant]:
    """A task that was delivered to a waiting worker and not started."""
    waiter = await waiting_claim(harness, worker)
    await harness.queue.enqueue("code")
    _, _, task, token = (await mailbox_lines(harness, waiter))[0].split(" ")
    return waiter, Grant(task, token, 0, 0, 0, b"", b"")


async def overdue(harness: Harness, *members: str) -> None:
    """Makes deliveries overdue."""
    await harness.client.zadd(harness.keys.deliveries(), dict.fromkeys(members, 1))


async def test_a_delivered_task_that_was_not_started_is_ready_without_an_attempt(
    harness: Harness,
) -> None:
    waiter, grant = await mailed(harness)
    await overdue(harness, f"{grant.task}:1")

    reply = await run_move(harness, "task/recall", TERMS)

    assert reply == ["OK", 0, 1]
    assert await all_keys(harness, a=grant.task) == KNOWN | {
        "task:a": {
            "def0": "*", "entry": "*", "holder": "* 0 w2", "lane": "1", "score": "*",
            "settled": "recall", "state": "READY", "token": "1:*",
        },
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "mail:*": [f"tasks 1 a {grant.token}"],
        "stats": {"submitted": 1},
    }  # fmt: skip
    assert (await waiter.claim(0)).grants == []
    assert await start(harness.queue._internals.shard, [HeldLease(grant.task, grant.token)]) == [
        "LOST"
    ]


async def test_a_delivery_that_is_not_due_is_unchanged(harness: Harness) -> None:
    await mailed(harness)
    before = await harness.dump()

    assert await run_move(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_a_started_task_continues(harness: Harness) -> None:
    _, grant = await mailed(harness)
    assert await start(harness.queue._internals.shard, [HeldLease(grant.task, grant.token)]) == [
        "OK"
    ]
    before = await harness.dump()

    assert await harness.client.exists(harness.keys.deliveries()) == 0
    assert await run_move(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_a_later_claim_of_the_task_is_not_recalled(harness: Harness) -> None:
    _, grant = await mailed(harness)
    await run_move(
        harness, "task/release", {**ANSWER_LIMITS, "tries": 0}, [(grant.task, grant.token)]
    )
    (lease,) = await harness.queue.claim(worker="w3", types=["code"])
    before = await harness.dump()
    await overdue(harness, f"{grant.task}:1")

    assert await run_move(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before
    await lease.start()


async def test_a_delivery_of_a_deleted_task_is_removed(harness: Harness) -> None:
    await overdue(harness, "01HZZZZZZZZZZZZZZZZZZZZZZZ:1")

    assert await run_move(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == {}


async def test_the_next_waiting_claim_gets_it(harness: Harness) -> None:
    _, grant = await mailed(harness)
    other = await waiting_claim(harness, "w3")
    await overdue(harness, f"{grant.task}:1")

    reply = await run_move(harness, "task/recall", TERMS)

    assert reply == ["OK", 0, 1]
    assert (await mailbox_lines(harness, other))[0].startswith(f"tasks 1 {grant.task} 2:")
    found = await all_keys(harness, a=grant.task)
    assert (found["handoffs"], found["ready"]) == (["a:2"], (["a"], {"a": "w3"}))


async def test_the_reply_has_more_where_the_limit_was_reached(harness: Harness) -> None:
    first, second = await mailed(harness, "w2"), await mailed(harness, "w3")
    await overdue(harness, f"{first[1].task}:1", f"{second[1].task}:1")

    steps = [await run_move(harness, "task/recall", {"limit": 1, "tries": 100}) for _ in range(3)]

    assert steps == [["OK", 1, 1], ["OK", 1, 1], ["OK", 0, 0]]


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    _, grant = await mailed(harness)
    await overdue(harness, f"{grant.task}:1")
    await run_move(harness, "task/recall", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before
