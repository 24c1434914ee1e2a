"""tidy: what is left of conversations that are over goes; who waits is not disturbed."""

from __future__ import annotations

from rqueue.store.sweeping import tidy
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import mail, parked

DAY_MS = 86_400_000


async def tidied(house: House) -> int:
    """Goes through every key there is."""
    return await tidy(house.queue.shard, list(await everything(house)), silent_ms=DAY_MS)


async def profile_of(house: House) -> str:
    (key,) = await house.client.keys(house.keys.profile("*"))
    return str(key.decode().removeprefix(house.keys.profile("")))


async def leave(house: House, worker: str) -> None:
    """Lets a worker look as if it had been silent for long, its last wait over."""
    await house.client.zadd(house.keys.workers(), {worker: 1})
    await house.client.hset(house.keys.waiter(f"{worker}/parked"), "until", 1)


async def test_how_far_turns_have_come_goes_with_the_last_task(house: House) -> None:
    handles = await house.queue.enqueue_many(
        [{"type": type, "limit_key": "a"} for type in ("code", "code", "review")]
    )
    await house.queue.claim(worker="w1", n=1)
    turned = house.keys.turned()
    await house.queue.cancel(handles[1].id)
    assert await tidied(house) == 0
    assert await house.client.exists(turned)
    await house.queue.cancel(handles[2].id)

    assert await tidied(house) == 1

    assert not await house.client.exists(turned)


async def test_turns_of_single_lanes_are_those_of_before(house: House) -> None:
    await house.queue.enqueue("code", limit_key="a")
    await house.client.zadd(f"{house.keys.turned()}:-1", {"@now": 5})
    before = await house.dump()

    assert await tidied(house) == 1

    after = await house.dump()
    assert set(before) - set(after) == {f"{house.keys.turned()}:-1"}


async def test_nothing_to_look_at_is_nothing_to_do(house: House) -> None:
    assert await tidied(house) == 0
    assert await house.dump() == {}


async def test_who_waits_is_not_disturbed(house: House) -> None:
    waiter = await parked(house)
    await house.client.zadd(house.keys.workers(), {"w2": 1})
    before = await house.dump()

    assert await tidied(house) == 0

    assert await house.dump() == before
    await house.queue.enqueue("code")
    assert len(await mail(house, waiter)) == 1


async def test_a_worker_that_lives_keeps_its_memo_between_two_waits(house: House) -> None:
    await parked(house)
    await house.client.hset(house.keys.waiter("w2/parked"), "until", 1)
    before = await house.dump()

    assert await tidied(house) == 0
    assert await house.dump() == before


async def test_a_gone_workers_memo_goes_and_its_wait_with_it(house: House) -> None:
    await parked(house, "w2")
    other = await parked(house, "w3")
    await leave(house, "w2")
    before = await house.dump()

    assert await tidied(house) == 1

    after = await house.dump()
    waiting = house.keys.waiting(await profile_of(house))
    assert set(before) - set(after) == {house.keys.waiter("w2/parked")}
    assert [member for member, _ in after[waiting]] == [b"w3/parked"]
    await house.queue.enqueue("code")
    assert len(await mail(house, other)) == 1


async def test_a_worker_that_was_dismissed_left_its_memo_behind(house: House) -> None:
    await parked(house)
    await leave(house, "w2")
    await house.client.zrem(house.keys.workers(), "w2")

    assert await tidied(house) == 1
    assert await house.client.exists(house.keys.waiter("w2/parked")) == 0


async def test_one_that_comes_back_goes_on_with_its_numbers(house: House) -> None:
    waiter = await parked(house)
    await leave(house, "w2")
    await tidied(house)
    await house.queue.enqueue("code")

    answer = await waiter.claim(1)

    assert (len(answer.grants), answer.stale) == (1, False)


async def test_waits_and_lists_of_a_profile_that_is_gone_go(house: House) -> None:
    await parked(house)
    profile = await profile_of(house)
    await house.client.delete(house.keys.profile(profile))
    await house.client.hset(house.keys.waiter("w2/parked"), "until", 1)
    lists = [house.keys.waiting(profile), house.keys.profiles(1), house.keys.profiles("new")]
    assert await house.client.exists(lists[0]) == await house.client.exists(lists[1]) == 1

    assert await tidied(house) == 3

    assert [await house.client.exists(key) for key in lists] == [0, 0, 0]
    assert await tidied(house) == 0


async def test_a_lanes_list_keeps_the_profiles_that_are_there(house: House) -> None:
    await parked(house)
    profile = await profile_of(house)
    await house.client.sadd(house.keys.profiles(1), "gone")

    assert await tidied(house) == 1
    assert await house.client.smembers(house.keys.profiles(1)) == {profile.encode()}


async def test_a_memo_of_a_claim_by_hand_stays_while_its_worker_lives(house: House) -> None:
    await house.queue.claim(worker="w1", types=["code"])
    before = await house.dump()

    assert await tidied(house) == 0
    assert await house.dump() == before
