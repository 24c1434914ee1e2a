"""tidy: what ended sessions have left is deleted; waiting claims are not changed."""

from __future__ import annotations

from rqueue.maintenance.janitor import tidy
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import mailbox_lines, waiting_claim

DAY_MS = 86_400_000


async def tidied(harness: Harness) -> int:
    """Checks every key."""
    return await tidy(
        harness.queue._internals.shard, list(await everything(harness)), silent_ms=DAY_MS
    )


async def profile_of(harness: Harness) -> str:
    (key,) = await harness.client.keys(harness.keys.profile("*"))
    return str(key.decode().removeprefix(harness.keys.profile("")))


async def leave(harness: Harness, worker: str) -> None:
    """Makes the last heartbeat of a worker old, and its last wait ended."""
    await harness.client.zadd(harness.keys.workers(), {worker: 1})
    await harness.client.hset(harness.keys.waiter(f"{worker}/parked"), "until", 1)


async def test_virtual_times_are_deleted_with_the_last_task(harness: Harness) -> None:
    handles = await harness.queue.enqueue_many(
        [{"type": type, "limit_key": "a"} for type in ("code", "code", "review")]
    )
    await harness.queue.claim(worker="w1", n=1)
    turned = harness.keys.turned()
    await harness.queue.cancel(handles[1].id)
    assert await tidied(harness) == 0
    assert await harness.client.exists(turned)
    await harness.queue.cancel(handles[2].id)

    assert await tidied(harness) == 1

    assert not await harness.client.exists(turned)


async def test_virtual_times_of_single_lanes_are_deleted(harness: Harness) -> None:
    await harness.queue.enqueue("code", limit_key="a")
    await harness.client.zadd(f"{harness.keys.turned()}:-1", {"@now": 5})
    before = await harness.dump()

    assert await tidied(harness) == 1

    after = await harness.dump()
    assert set(before) - set(after) == {f"{harness.keys.turned()}:-1"}


async def test_a_call_without_names_deletes_nothing(harness: Harness) -> None:
    assert await tidied(harness) == 0
    assert await harness.dump() == {}


async def test_a_waiting_claim_is_not_changed(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await harness.client.zadd(harness.keys.workers(), {"w2": 1})
    before = await harness.dump()

    assert await tidied(harness) == 0

    assert await harness.dump() == before
    await harness.queue.enqueue("code")
    assert len(await mailbox_lines(harness, waiter)) == 1


async def test_a_live_worker_keeps_its_memo_between_two_waits(harness: Harness) -> None:
    await waiting_claim(harness)
    await harness.client.hset(harness.keys.waiter("w2/parked"), "until", 1)
    before = await harness.dump()

    assert await tidied(harness) == 0
    assert await harness.dump() == before


async def test_the_memo_and_the_wait_of_a_silent_worker_are_deleted(harness: Harness) -> None:
    await waiting_claim(harness, "w2")
    other = await waiting_claim(harness, "w3")
    await leave(harness, "w2")
    before = await harness.dump()

    assert await tidied(harness) == 1

    after = await harness.dump()
    waiting = harness.keys.waiting(await profile_of(harness))
    assert set(before) - set(after) == {harness.keys.waiter("w2/parked")}
    assert [member for member, _ in after[waiting]] == [b"w3/parked"]
    await harness.queue.enqueue("code")
    assert len(await mailbox_lines(harness, other)) == 1


async def test_the_memo_of_a_dismissed_worker_is_deleted(harness: Harness) -> None:
    await waiting_claim(harness)
    await leave(harness, "w2")
    await harness.client.zrem(harness.keys.workers(), "w2")

    assert await tidied(harness) == 1
    assert await harness.client.exists(harness.keys.waiter("w2/parked")) == 0


async def test_a_worker_that_returns_continues_with_its_sequence_numbers(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await leave(harness, "w2")
    await tidied(harness)
    await harness.queue.enqueue("code")

    answer = await waiter.claim(1)

    assert (len(answer.grants), answer.stale) == (1, False)


async def test_waits_and_lists_of_an_expired_profile_are_deleted(harness: Harness) -> None:
    await waiting_claim(harness)
    profile = await profile_of(harness)
    await harness.client.delete(harness.keys.profile(profile))
    await harness.client.hset(harness.keys.waiter("w2/parked"), "until", 1)
    lists = [harness.keys.waiting(profile), harness.keys.profiles(1), harness.keys.profiles("new")]
    assert await harness.client.exists(lists[0]) == await harness.client.exists(lists[1]) == 1

    assert await tidied(harness) == 3

    assert [await harness.client.exists(key) for key in lists] == [0, 0, 0]
    assert await tidied(harness) == 0


async def test_the_list_of_a_lane_keeps_existing_profiles(harness: Harness) -> None:
    await waiting_claim(harness)
    profile = await profile_of(harness)
    await harness.client.sadd(harness.keys.profiles(1), "gone")

    assert await tidied(harness) == 1
    assert await harness.client.smembers(harness.keys.profiles(1)) == {profile.encode()}


async def test_the_memo_of_a_manual_claim_stays_while_its_worker_lives(harness: Harness) -> None:
    await harness.queue.claim(worker="w1", types=["code"])
    before = await harness.dump()

    assert await tidied(harness) == 0
    assert await harness.dump() == before
