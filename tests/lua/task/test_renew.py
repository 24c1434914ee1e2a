"""renew: keeps leases, and enforces their time limits."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import HeldLease, Settled, complete, renew, validate
from rqueue.store.lanes import read_lanes
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.rows import age_holder, claim, everything, held, words

CLAIM, TIMEOUT, GRACE = 60_000, 3_600_000, 10_000
# Far less than any limit here, far more than a test takes.
MARGIN = 5_000


async def idle_ms(harness: Harness) -> int:
    (pending,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    found: int = pending["time_since_delivered"]
    return found


async def silent(harness: Harness) -> None:
    """Sets a high idle time on the only lease."""
    (entry,) = (await everything(harness))["ready"][0]
    await harness.client.xclaim(
        harness.keys.ready(), "workers", "w1", 0, [entry], idle=50_000, justid=True
    )


async def unchanged(harness: Harness, before: dict[str, Any]) -> None:
    """Asserts that only the worker's heartbeat has changed."""
    found = await harness.dump()
    key = harness.keys.workers()
    assert {**found, key: 0} == {**before, key: 0}


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "VALIDATING"])
async def test_a_lease_is_renewed_and_nothing_else_changes(harness: Harness, state: str) -> None:
    lease = await held(harness, start=int(state != "CLAIMED"))
    if state == "VALIDATING":
        await validate(harness.queue._internals.shard, [lease])
    await silent(harness)
    await harness.client.zadd(harness.keys.workers(), {"w1": 1})
    before = await harness.dump()

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == ["OK"]

    assert await idle_ms(harness) < 50_000
    await unchanged(harness, before)
    assert (await everything(harness))["workers"]["w1"] > 1


async def test_the_reply_has_the_version_of_the_lanes(harness: Harness) -> None:
    args: dict[str, Any] = {"consumer": "w1", "claim_ms": 1, "timeout_ms": 1, "grace_ms": 0}
    assert words(await harness.queue._internals.shard.run("task/renew", args)) == ["OK", "0"]
    await held(harness)

    version = (await read_lanes(harness.queue._internals.shard)).version
    assert words(await harness.queue._internals.shard.run("task/renew", args)) == ["OK", version]


async def test_a_worker_without_leases_sends_a_heartbeat(harness: Harness) -> None:
    assert await renew(harness.queue._internals.shard, "w1", []) == []

    assert set(await everything(harness)) == {"workers"}


async def test_a_task_with_a_damaged_entry_does_not_stop_the_renewal_of_others(
    harness: Harness,
) -> None:
    broken, lease = await harness.claimed(), await harness.claimed()
    await harness.age(lease, 60)
    await harness.client.hset(harness.keys.task(broken.id.ulid), "entry", "nan")

    held = [HeldLease(one.id.ulid, one.token) for one in (broken, lease)]
    assert await renew(harness.queue._internals.shard, "w1", held) == ["OK", "OK"]

    found = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    assert all(one["time_since_delivered"] < 50_000 for one in found)


async def test_a_renewal_does_not_count_as_a_delivery(harness: Harness) -> None:
    lease = await held(harness)
    (before,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)

    await renew(harness.queue._internals.shard, "w1", [lease])

    (after,) = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 9)
    assert after["times_delivered"] == before["times_delivered"]


@pytest.mark.parametrize(
    ("age", "word"), [(CLAIM - MARGIN, "OK"), (CLAIM + MARGIN, "claim_expired")]
)
async def test_a_task_may_stay_claimed_for_a_limited_time(
    harness: Harness, age: int, word: str
) -> None:
    lease = await held(harness, start=0)
    await age_holder(harness, lease.task, claimed=age)
    await silent(harness)
    before = await harness.dump()

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == [word]

    assert (await idle_ms(harness) < 50_000) == (word == "OK")
    await unchanged(harness, before)


@pytest.mark.parametrize("checking", [False, True], ids=["running", "validating"])
@pytest.mark.parametrize(
    ("age", "word"), [(TIMEOUT + GRACE - MARGIN, "OK"), (TIMEOUT + GRACE + MARGIN, "timeout")]
)
async def test_a_task_may_run_for_its_timeout_and_grace(
    harness: Harness, age: int, word: str, checking: bool
) -> None:
    lease = await held(harness)
    if checking:
        await validate(harness.queue._internals.shard, [lease])
    await age_holder(harness, lease.task, claimed=age * 2, started=age)
    await silent(harness)
    before = await harness.dump()

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == [word]

    assert (await idle_ms(harness) < 50_000) == (word == "OK")
    await unchanged(harness, before)


@pytest.mark.parametrize(
    ("limit", "age", "word"),
    [
        (60_000, 60_000 + GRACE - MARGIN, "OK"),
        (60_000, 60_000 + GRACE + MARGIN, "timeout"),
        (TIMEOUT * 2, TIMEOUT + GRACE + MARGIN, "OK"),
    ],
    ids=["within", "beyond", "longer"],
)
async def test_a_tasks_own_timeout_counts(
    harness: Harness, limit: int, age: int, word: str
) -> None:
    lease = await held(harness, more={"timeout": limit})
    await age_holder(harness, lease.task, claimed=age, started=age)

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == [word]


async def test_another_worker_cannot_renew_with_the_same_token(harness: Harness) -> None:
    lease = await held(harness)
    await silent(harness)
    before = await harness.dump()

    assert await renew(harness.queue._internals.shard, "w2", [lease]) == ["LOST"]

    assert await idle_ms(harness) >= 50_000
    await unchanged(harness, before)


async def test_a_stale_token_renews_nothing(harness: Harness) -> None:
    lease = await held(harness)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [lease])
    assert await renew(harness.queue._internals.shard, "w1", [lease]) == ["LOST"]
    await claim(harness, waiter="two", start=1, bits="new")
    await silent(harness)
    before = await harness.dump()

    others = [lease, HeldLease(lease.task, "2:bits"), HeldLease("NOBODY", "1:bits")]
    assert await renew(harness.queue._internals.shard, "w1", others) == ["LOST"] * 3

    assert await idle_ms(harness) >= 50_000
    await unchanged(harness, before)


async def test_a_task_that_ended_is_lost(harness: Harness) -> None:
    lease = await held(harness)
    await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    before = await harness.dump()

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == ["LOST"]

    await unchanged(harness, before)


async def test_each_lease_has_its_own_word(harness: Harness) -> None:
    kept, late, gone = [await held(harness) for _ in range(3)]
    await age_holder(harness, late.task, claimed=TIMEOUT * 2, started=TIMEOUT * 2)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [gone])

    answer = await renew(harness.queue._internals.shard, "w1", [late, gone, kept])

    assert answer == ["timeout", "LOST", "OK"]


async def test_a_missing_group_is_created_again_with_the_lease(harness: Harness) -> None:
    lease = await held(harness)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")

    assert await renew(harness.queue._internals.shard, "w1", [lease]) == ["OK"]

    found = await everything(harness)
    assert found["ready"][1] == {found[f"task:{lease.task}"]["entry"]: "w1"}
