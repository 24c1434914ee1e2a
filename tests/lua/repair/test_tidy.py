"""tidy: what is left of conversations that are over goes; who waits is not disturbed."""

from __future__ import annotations

from rqueue.maintenance.sweeper import tidy
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import mail, parked

DAY_MS = 86_400_000


async def tidied(harness: Harness) -> int:
    """Goes through every key there is."""
    return await tidy(
        harness.queue._internals.shard, list(await everything(harness)), silent_ms=DAY_MS
    )


async def profile_of(harness: Harness) -> str:
    (key,) = await harness.client.keys(harness.keys.profile("*"))
    return str(key.decode().removeprefix(harness.keys.profile("")))


async def leave(harness: Harness, worker: str) -> None:
    """Lets a worker look as if it had been silent for long, its last wait over."""
    await harness.client.zadd(harness.keys.workers(), {worker: 1})
    await harness.client.hset(harness.keys.waiter(f"{worker}/parked"), "until", 1)


async def test_how_far_turns_have_come_goes_with_the_last_task(harness: Harness) -> None:
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


async def test_turns_of_single_lanes_are_those_of_before(harness: Harness) -> None:
    await harness.queue.enqueue("code", limit_key="a")
    await harness.client.zadd(f"{harness.keys.turned()}:-1", {"@now": 5})
    before = await harness.dump()

    assert await tidied(harness) == 1

    after = await harness.dump()
    assert set(before) - set(after) == {f"{harness.keys.turned()}:-1"}


async def test_nothing_to_look_at_is_nothing_to_do(harness: Harness) -> None:
    assert await tidied(harness) == 0
    assert await harness.dump() == {}


async def test_who_waits_is_not_disturbed(harness: Harness) -> None:
    waiter = await parked(harness)
    await harness.client.zadd(harness.keys.workers(), {"w2": 1})
    before = await harness.dump()

    assert await tidied(harness) == 0

    assert await harness.dump() == before
    await harness.queue.enqueue("code")
    assert len(await mail(harness, waiter)) == 1


async def test_a_worker_that_lives_keeps_its_memo_between_two_waits(harness: Harness) -> None:
    await parked(harness)
    await harness.client.hset(harness.keys.waiter("w2/parked"), "until", 1)
    before = await harness.dump()

    assert await tidied(harness) == 0
    assert await harness.dump() == before


async def test_a_gone_workers_memo_goes_and_its_wait_with_it(harness: Harness) -> None:
    await parked(harness, "w2")
    other = await parked(harness, "w3")
    await leave(harness, "w2")
    before = await harness.dump()

    assert await tidied(harness) == 1

    after = await harness.dump()
    waiting = harness.keys.waiting(await profile_of(harness))
    assert set(before) - set(after) == {harness.keys.waiter("w2/parked")}
    assert [member for member, _ in after[waiting]] == [b"w3/parked"]
    await harness.queue.enqueue("code")
    assert len(await mail(harness, other)) == 1


async def test_a_worker_that_was_dismissed_left_its_memo_behind(harness: Harness) -> None:
    await parked(harness)
    await leave(harness, "w2")
    await harness.client.zrem(harness.keys.workers(), "w2")

    assert await tidied(harness) == 1
    assert await harness.client.exists(harness.keys.waiter("w2/parked")) == 0


async def test_one_that_comes_back_goes_on_with_its_numbers(harness: Harness) -> None:
    waiter = await parked(harness)
    await leave(harness, "w2")
    await tidied(harness)
    await harness.queue.enqueue("code")

    answer = await waiter.claim(1)

    assert (len(answer.grants), answer.stale) == (1, False)


async def test_waits_and_lists_of_a_profile_that_is_gone_go(harness: Harness) -> None:
    await parked(harness)
    profile = await profile_of(harness)
    await harness.client.delete(harness.keys.profile(profile))
    await harness.client.hset(harness.keys.waiter("w2/parked"), "until", 1)
    lists = [harness.keys.waiting(profile), harness.keys.profiles(1), harness.keys.profiles("new")]
    assert await harness.client.exists(lists[0]) == await harness.client.exists(lists[1]) == 1

    assert await tidied(harness) == 3

    assert [await harness.client.exists(key) for key in lists] == [0, 0, 0]
    assert await tidied(harness) == 0


async def test_a_lanes_list_keeps_the_profiles_that_are_there(harness: Harness) -> None:
    await parked(harness)
    profile = await profile_of(harness)
    await harness.client.sadd(harness.keys.profiles(1), "gone")

    assert await tidied(harness) == 1
    assert await harness.client.smembers(harness.keys.profiles(1)) == {profile.encode()}


async def test_a_memo_of_a_claim_by_hand_stays_while_its_worker_lives(harness: Harness) -> None:
    await harness.queue.claim(worker="w1", types=["code"])
    before = await harness.dump()

    assert await tidied(harness) == 0
    assert await harness.dump() == before
