"""release: a lease given back costs nothing, and the task keeps its place."""

from __future__ import annotations

import pytest

from rqueue import Lease
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.task.afterwards import LANES, PARKED, W1, afterwards, ask, expiring, mail, parked

TERMS: dict[str, Argument] = {**FREED}
READY = {
    "def0": "*", "entry": "*", "holder": "* 0 w1", "lane": "1", "score": "*",
    "settled": "release 1:*", "state": "READY", "token": "1:*",
}  # fmt: skip


def row(lease: Lease) -> tuple[Argument, ...]:
    return (lease.id.ulid, lease.token)


async def test_a_released_task_may_be_claimed_and_spent_nothing(house: House) -> None:
    lease = await house.claimed()

    said = await ask(house, "task/release", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    assert await afterwards(house, a=lease.id) == LANES | W1 | {
        "task:a": READY,
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }
    assert await expiring(house) == set()
    assert (await house.task(lease.id)).attempts == 0


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_any_held_task_may_be_given_back(house: House, state: str) -> None:
    lease = await house.claimed()
    if state != "CLAIMED":
        await lease.start()
    if state == "VALIDATING":
        await lease.validate()

    said = await ask(house, "task/release", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    found = await afterwards(house, a=lease.id)
    assert (found["ready"], found["lane:1"]) == ((["a"], {}), ["a"])
    assert found["stats"] == {"submitted": 1}


async def test_it_keeps_its_place_in_the_lane(house: House) -> None:
    first, second, third = await house.queue.enqueue_many([house.queue.call("code")] * 3)
    leases = await house.queue.claim(worker="w1", types=["code"], n=2)

    await ask(house, "task/release", TERMS, [row(lease) for lease in reversed(leases)])

    again = await house.queue.claim(worker="w1", types=["code"], n=3)
    assert [lease.id for lease in again] == [first.id, second.id, third.id]


async def test_a_claim_that_waits_is_answered(house: House) -> None:
    lease = await house.claimed()
    waiter = await parked(house)

    said = await ask(house, "task/release", TERMS, [row(lease)])

    token = (await house.client.hget(house.keys.task(lease.id.ulid), "token")).decode()
    assert said == ["OK", 0, "OK"]
    assert await mail(house, waiter) == [f"tasks 1 {lease.id.ulid} {token}"]
    assert token != lease.token
    assert await afterwards(house, a=lease.id) == LANES | PARKED | {
        "task:a": READY | {"state": "CLAIMED", "token": "2:*", "holder": "* 0 w2"},
        "ready": (["a"], {"a": "w2"}),
        "handoffs": ["a:2"],
        "mail:*": [f"tasks 1 a {token}"],
        "stats": {"1:CLAIMED": 1, "submitted": 1},
        "waiter:w1": "*",
        "waiter:w2": "*",
        "workers": ["w1", "w2"],
    }
    assert await expiring(house) == {"mail:*", "profile:*"}


async def test_more_is_said_where_some_who_wait_were_not_looked_at(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code")] * 2)
    leases = await house.queue.claim(worker="w1", types=["code"], n=2)
    one, two = await parked(house, "w2"), await parked(house, "w3")

    said = await ask(house, "task/release", {**FREED, "tries": 1}, [row(lease) for lease in leases])

    assert said == ["OK", 1, "OK", "OK"]
    assert (len(await mail(house, one)), len(await mail(house, two))) == (1, 0)


async def test_a_handed_over_task_that_is_given_back_is_not_recalled(house: House) -> None:
    waiter = await parked(house)
    await house.queue.enqueue("code")
    (grant,) = (await waiter.claim(0)).grants
    await house.client.zadd(house.keys.handoffs(), {f"{grant.task}:1": 1})

    await ask(house, "task/release", TERMS, [(grant.task, grant.token)])

    assert await house.client.exists(house.keys.handoffs()) == 0


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    lease = await house.claimed()
    first = await ask(house, "task/release", TERMS, [row(lease)])
    before = await house.dump()

    second = await ask(house, "task/release", TERMS, [row(lease)])

    assert second == first
    assert await house.dump() == before


async def test_sent_again_after_another_has_claimed_it_says_the_same(house: House) -> None:
    lease = await house.claimed()
    await lease.release()
    await house.queue.claim(worker="w2", types=["code"])
    before = await house.dump()

    assert await ask(house, "task/release", TERMS, [row(lease)]) == ["OK", 0, "OK"]
    assert await house.dump() == before


async def test_a_stale_token_changes_nothing(house: House) -> None:
    stale = await house.claimed()
    await house.age(stale, 3600)
    await house.reaper.tick()
    await house.queue.claim(worker="w2", types=["code"])
    before = await house.dump()

    assert await ask(house, "task/release", TERMS, [row(stale)]) == ["OK", 0, "LOST"]
    assert await house.dump() == before


async def test_one_that_has_ended_is_lost(house: House) -> None:
    first = await house.running()
    await first.release()
    (second,) = await house.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await house.dump()

    assert await ask(house, "task/release", TERMS, [row(second)]) == ["OK", 0, "LOST"]
    assert await house.dump() == before
