"""recall: what was mailed and not started in time comes back, and only that claim of it."""

from __future__ import annotations

from rqueue.core.claim import Grant, WaitingClaim
from rqueue.core.leases import HeldLease, start
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keys_after import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"limit": 100, "tries": 100}
KNOWN = LANES | PARKED | {"waiter:w2": "*", "workers": ["w2"]}


async def mailed(harness: Harness, worker: str = "w2") -> tuple[WaitingClaim, Grant]:
    """A task that was handed to a waiting worker, which has not started it."""
    waiter = await parked(harness, worker)
    await harness.queue.enqueue("code")
    _, _, task, token = (await mail(harness, waiter))[0].split(" ")
    return waiter, Grant(task, token, 0, 0, 0, b"", b"")


async def overdue(harness: Harness, *members: str) -> None:
    """Lets hand-offs have waited too long."""
    await harness.client.zadd(harness.keys.deliveries(), dict.fromkeys(members, 1))


async def test_a_task_nobody_started_comes_back_free(harness: Harness) -> None:
    waiter, grant = await mailed(harness)
    await overdue(harness, f"{grant.task}:1")

    said = await ask(harness, "task/recall", TERMS)

    assert said == ["OK", 0, 1]
    assert await afterwards(harness, a=grant.task) == KNOWN | {
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


async def test_a_handoff_that_is_not_due_is_left_alone(harness: Harness) -> None:
    await mailed(harness)
    before = await harness.dump()

    assert await ask(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_one_that_was_started_runs_on(harness: Harness) -> None:
    _, grant = await mailed(harness)
    assert await start(harness.queue._internals.shard, [HeldLease(grant.task, grant.token)]) == [
        "OK"
    ]
    before = await harness.dump()

    assert await harness.client.exists(harness.keys.deliveries()) == 0
    assert await ask(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_a_later_claim_of_the_task_is_not_taken_back(harness: Harness) -> None:
    _, grant = await mailed(harness)
    await ask(harness, "task/release", {**ANSWER_LIMITS, "tries": 0}, [(grant.task, grant.token)])
    (lease,) = await harness.queue.claim(worker="w3", types=["code"])
    before = await harness.dump()
    await overdue(harness, f"{grant.task}:1")

    assert await ask(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before
    await lease.start()


async def test_a_handoff_of_a_task_that_is_gone_is_forgotten(harness: Harness) -> None:
    await overdue(harness, "01HZZZZZZZZZZZZZZZZZZZZZZZ:1")

    assert await ask(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == {}


async def test_the_next_who_waits_gets_it(harness: Harness) -> None:
    _, grant = await mailed(harness)
    other = await parked(harness, "w3")
    await overdue(harness, f"{grant.task}:1")

    said = await ask(harness, "task/recall", TERMS)

    assert said == ["OK", 0, 1]
    assert (await mail(harness, other))[0].startswith(f"tasks 1 {grant.task} 2:")
    found = await afterwards(harness, a=grant.task)
    assert (found["handoffs"], found["ready"]) == (["a:2"], (["a"], {"a": "w3"}))


async def test_more_is_said_where_the_limit_was_reached(harness: Harness) -> None:
    first, second = await mailed(harness, "w2"), await mailed(harness, "w3")
    await overdue(harness, f"{first[1].task}:1", f"{second[1].task}:1")

    steps = [await ask(harness, "task/recall", {"limit": 1, "tries": 100}) for _ in range(3)]

    assert steps == [["OK", 1, 1], ["OK", 1, 1], ["OK", 0, 0]]


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    _, grant = await mailed(harness)
    await overdue(harness, f"{grant.task}:1")
    await ask(harness, "task/recall", TERMS)
    before = await harness.dump()

    assert await ask(harness, "task/recall", TERMS) == ["OK", 0, 0]
    assert await harness.dump() == before
