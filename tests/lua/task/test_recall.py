"""recall: what was mailed and not started in time comes back, and only that claim of it."""

from __future__ import annotations

from rqueue.store.claims import Grant, Waiter
from rqueue.store.leases import Held, start
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.task.afterwards import LANES, PARKED, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {"limit": 100, "tries": 100}
KNOWN = LANES | PARKED | {"waiter:w2": "*", "workers": ["w2"]}


async def mailed(house: House, worker: str = "w2") -> tuple[Waiter, Grant]:
    """A task that was handed to a waiting worker, which has not started it."""
    waiter = await parked(house, worker)
    await house.queue.enqueue("code")
    _, _, task, token = (await mail(house, waiter))[0].split(" ")
    return waiter, Grant(task, token, 0, 0, 0, b"", b"")


async def overdue(house: House, *members: str) -> None:
    """Lets hand-offs have waited too long."""
    await house.client.zadd(house.keys.handoffs(), dict.fromkeys(members, 1))


async def test_a_task_nobody_started_comes_back_free(house: House) -> None:
    waiter, grant = await mailed(house)
    await overdue(house, f"{grant.task}:1")

    said = await ask(house, "task/recall", TERMS)

    assert said == ["OK", 0, 1]
    assert await afterwards(house, a=grant.task) == KNOWN | {
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
    assert await start(house.queue.shard, [Held(grant.task, grant.token)]) == ["LOST"]


async def test_a_handoff_that_is_not_due_is_left_alone(house: House) -> None:
    await mailed(house)
    before = await house.dump()

    assert await ask(house, "task/recall", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before


async def test_one_that_was_started_runs_on(house: House) -> None:
    _, grant = await mailed(house)
    assert await start(house.queue.shard, [Held(grant.task, grant.token)]) == ["OK"]
    before = await house.dump()

    assert await house.client.exists(house.keys.handoffs()) == 0
    assert await ask(house, "task/recall", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before


async def test_a_later_claim_of_the_task_is_not_taken_back(house: House) -> None:
    _, grant = await mailed(house)
    await ask(house, "task/release", {**FREED, "tries": 0}, [(grant.task, grant.token)])
    (lease,) = await house.queue.claim(worker="w3", types=["code"])
    before = await house.dump()
    await overdue(house, f"{grant.task}:1")

    assert await ask(house, "task/recall", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before
    await lease.start()


async def test_a_handoff_of_a_task_that_is_gone_is_forgotten(house: House) -> None:
    await overdue(house, "01HZZZZZZZZZZZZZZZZZZZZZZZ:1")

    assert await ask(house, "task/recall", TERMS) == ["OK", 0, 0]
    assert await house.dump() == {}


async def test_the_next_who_waits_gets_it(house: House) -> None:
    _, grant = await mailed(house)
    other = await parked(house, "w3")
    await overdue(house, f"{grant.task}:1")

    said = await ask(house, "task/recall", TERMS)

    assert said == ["OK", 0, 1]
    assert (await mail(house, other))[0].startswith(f"tasks 1 {grant.task} 2:")
    found = await afterwards(house, a=grant.task)
    assert (found["handoffs"], found["ready"]) == (["a:2"], (["a"], {"a": "w3"}))


async def test_more_is_said_where_the_limit_was_reached(house: House) -> None:
    first, second = await mailed(house, "w2"), await mailed(house, "w3")
    await overdue(house, f"{first[1].task}:1", f"{second[1].task}:1")

    steps = [await ask(house, "task/recall", {"limit": 1, "tries": 100}) for _ in range(3)]

    assert steps == [["OK", 1, 1], ["OK", 1, 1], ["OK", 0, 0]]


async def test_sent_again_it_changes_nothing(house: House) -> None:
    _, grant = await mailed(house)
    await overdue(house, f"{grant.task}:1")
    await ask(house, "task/recall", TERMS)
    before = await house.dump()

    assert await ask(house, "task/recall", TERMS) == ["OK", 0, 0]
    assert await house.dump() == before
