"""renew: keeps leases, and is the clock of what may be kept."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.lanes import read_lanes
from rqueue.store.leases import Held, Settled, complete, renew, validate
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import age_holder, claim, everything, held, words

CLAIM, TIMEOUT, GRACE = 60_000, 3_600_000, 10_000
# Far less than any limit here, far more than a test takes.
MARGIN = 5_000


async def idle_ms(house: House) -> int:
    (pending,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    found: int = pending["time_since_delivered"]
    return found


async def silent(house: House) -> None:
    """The only lease looks as if nobody had renewed it for long."""
    (entry,) = (await everything(house))["ready"][0]
    await house.client.xclaim(
        house.keys.ready(), "workers", "w1", 0, [entry], idle=50_000, justid=True
    )


async def unchanged(house: House, before: dict[str, Any]) -> None:
    """Nothing but the worker's sign of life is new."""
    found = await house.dump()
    key = house.keys.workers()
    assert {**found, key: 0} == {**before, key: 0}


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_a_lease_is_fresh_again_and_all_else_is_as_it_was(house: House, state: str) -> None:
    lease = await held(house, start=int(state != "CLAIMED"))
    if state == "VALIDATING":
        await validate(house.queue.shard, [lease])
    await silent(house)
    await house.client.zadd(house.keys.workers(), {"w1": 1})
    before = await house.dump()

    assert await renew(house.queue.shard, "w1", [lease]) == ["OK"]

    assert await idle_ms(house) < 50_000
    await unchanged(house, before)
    assert (await everything(house))["workers"]["w1"] > 1


async def test_the_reply_tells_the_version_of_the_lanes(house: House) -> None:
    args: dict[str, Any] = {"consumer": "w1", "claim_ms": 1, "timeout_ms": 1, "grace_ms": 0}
    assert words(await house.queue.shard.run("task/renew", args)) == ["OK", "0"]
    await held(house)

    version = (await read_lanes(house.queue.shard)).version
    assert words(await house.queue.shard.run("task/renew", args)) == ["OK", version]


async def test_a_worker_without_leases_shows_a_sign_of_life(house: House) -> None:
    assert await renew(house.queue.shard, "w1", []) == []

    assert set(await everything(house)) == {"workers"}


async def test_a_task_whose_entry_is_damaged_does_not_keep_the_others_from_being_renewed(
    house: House,
) -> None:
    broken, lease = await house.claimed(), await house.claimed()
    await house.age(lease, 60)
    await house.client.hset(house.keys.task(broken.id.ulid), "entry", "nan")

    held = [Held(one.id.ulid, one.token) for one in (broken, lease)]
    assert await renew(house.queue.shard, "w1", held) == ["OK", "OK"]

    found = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    assert all(one["time_since_delivered"] < 50_000 for one in found)


async def test_a_renewal_does_not_count_as_a_delivery(house: House) -> None:
    lease = await held(house)
    (before,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)

    await renew(house.queue.shard, "w1", [lease])

    (after,) = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 9)
    assert after["times_delivered"] == before["times_delivered"]


@pytest.mark.parametrize(
    ("age", "word"), [(CLAIM - MARGIN, "OK"), (CLAIM + MARGIN, "claim_expired")]
)
async def test_a_task_may_stay_claimed_for_a_while_only(house: House, age: int, word: str) -> None:
    lease = await held(house, start=0)
    await age_holder(house, lease.task, claimed=age)
    await silent(house)
    before = await house.dump()

    assert await renew(house.queue.shard, "w1", [lease]) == [word]

    assert (await idle_ms(house) < 50_000) == (word == "OK")
    await unchanged(house, before)


@pytest.mark.parametrize("checking", [False, True], ids=["running", "validating"])
@pytest.mark.parametrize(
    ("age", "word"), [(TIMEOUT + GRACE - MARGIN, "OK"), (TIMEOUT + GRACE + MARGIN, "timeout")]
)
async def test_a_task_may_run_for_its_timeout_and_grace(
    house: House, age: int, word: str, checking: bool
) -> None:
    lease = await held(house)
    if checking:
        await validate(house.queue.shard, [lease])
    await age_holder(house, lease.task, claimed=age * 2, started=age)
    await silent(house)
    before = await house.dump()

    assert await renew(house.queue.shard, "w1", [lease]) == [word]

    assert (await idle_ms(house) < 50_000) == (word == "OK")
    await unchanged(house, before)


@pytest.mark.parametrize(
    ("limit", "age", "word"),
    [
        (60_000, 60_000 + GRACE - MARGIN, "OK"),
        (60_000, 60_000 + GRACE + MARGIN, "timeout"),
        (TIMEOUT * 2, TIMEOUT + GRACE + MARGIN, "OK"),
    ],
    ids=["within", "beyond", "longer"],
)
async def test_a_tasks_own_timeout_counts(house: House, limit: int, age: int, word: str) -> None:
    lease = await held(house, more={"timeout": limit})
    await age_holder(house, lease.task, claimed=age, started=age)

    assert await renew(house.queue.shard, "w1", [lease]) == [word]


async def test_another_worker_cannot_renew_with_the_same_token(house: House) -> None:
    lease = await held(house)
    await silent(house)
    before = await house.dump()

    assert await renew(house.queue.shard, "w2", [lease]) == ["LOST"]

    assert await idle_ms(house) >= 50_000
    await unchanged(house, before)


async def test_a_stale_token_renews_nothing(house: House) -> None:
    lease = await held(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [lease])
    assert await renew(house.queue.shard, "w1", [lease]) == ["LOST"]
    await claim(house, waiter="two", start=1, bits="new")
    await silent(house)
    before = await house.dump()

    strangers = [lease, Held(lease.task, "2:bits"), Held("NOBODY", "1:bits")]
    assert await renew(house.queue.shard, "w1", strangers) == ["LOST"] * 3

    assert await idle_ms(house) >= 50_000
    await unchanged(house, before)


async def test_a_task_that_ended_is_lost(house: House) -> None:
    lease = await held(house)
    await complete(house.queue.shard, [Settled(*lease, b"")])
    before = await house.dump()

    assert await renew(house.queue.shard, "w1", [lease]) == ["LOST"]

    await unchanged(house, before)


async def test_each_lease_gets_its_own_word(house: House) -> None:
    kept, late, gone = [await held(house) for _ in range(3)]
    await age_holder(house, late.task, claimed=TIMEOUT * 2, started=TIMEOUT * 2)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [gone])

    answer = await renew(house.queue.shard, "w1", [late, gone, kept])

    assert answer == ["timeout", "LOST", "OK"]


async def test_a_missing_group_is_made_again_and_the_lease_is_in_it(house: House) -> None:
    lease = await held(house)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")

    assert await renew(house.queue.shard, "w1", [lease]) == ["OK"]

    found = await everything(house)
    assert found["ready"][1] == {found[f"task:{lease.task}"]["entry"]: "w1"}
