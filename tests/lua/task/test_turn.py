"""turn: what has finished is completed and what is free is filled, in one call."""

from __future__ import annotations

import pytest

from rqueue.policy.capability import Offer
from rqueue.store.claims import Waiter
from rqueue.store.leases import Settled
from rqueue.store.mail import read_mail
from tests.house import House
from tests.lua.rows import a_row, everything, submit, submitted


@pytest.fixture
def waiter(house: House) -> Waiter:
    return Waiter(house.queue.shard, "w1", Offer.of(None), name="w1", lasts=True)


async def test_it_completes_and_claims_started(house: House, waiter: Waiter) -> None:
    first, second = await submitted(house), await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants

    turned = await waiter.turn([Settled(grant.task, grant.token, b'"done"')], 1)

    found = await everything(house)
    assert turned.words == ["OK"]
    assert [grant.task for grant in turned.answer.grants] == [second]
    assert found[f"task:{first}"]["state"] == "COMPLETED"
    assert found[f"result:{first}"] == '"done"'
    assert found[f"task:{second}"]["state"] == "RUNNING"


async def test_sent_again_both_halves_say_the_same(house: House, waiter: Waiter) -> None:
    await submit(house, [a_row(), a_row()])
    (grant,) = (await waiter.turn([], 1)).answer.grants
    done = [Settled(grant.task, grant.token, b"")]
    first = await waiter.turn(done, 1)
    before = await house.dump()

    waiter.seq -= 1
    again = await waiter.turn(done, 1)

    assert again.words == first.words
    assert [g.task for g in again.answer.grants] == [g.task for g in first.answer.grants]
    assert await house.dump() == before


async def test_a_stale_token_completes_nothing_and_the_claim_goes_on(
    house: House, waiter: Waiter
) -> None:
    first, second = await submitted(house), await submitted(house)
    await waiter.turn([], 1)

    turned = await waiter.turn([Settled(first, "1:other", b"")], 1)

    assert turned.words == ["LOST"]
    assert [grant.task for grant in turned.answer.grants] == [second]
    assert (await everything(house))[f"task:{first}"]["state"] == "RUNNING"


async def test_a_turn_that_knows_other_lanes_learns_them_and_completes_once(
    house: House, waiter: Waiter
) -> None:
    await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await house.queue.enqueue("other")

    turned = await waiter.turn([Settled(grant.task, grant.token, b"")], 1)

    assert turned.words == ["OK"]
    assert len(turned.answer.grants) == 1
    assert (await house.queue.counts())["COMPLETED"] == 1


async def test_with_nothing_to_give_it_parks_and_what_is_mailed_comes_started(
    house: House, waiter: Waiter
) -> None:
    await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    parked = await waiter.turn([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(house)
    brought = await read_mail(house.queue.shard, waiter.box, 1)
    assert brought is not None
    (mailed,) = waiter.mailed(brought)
    before = await everything(house)

    turned = await waiter.turn([], 2, wait_ms=5000)

    found = await everything(house)
    assert parked.answer.wait_ms == 5000
    assert turned.answer.grants == [mailed]
    assert mailed.task == task
    assert before[f"task:{task}"]["state"] == found[f"task:{task}"]["state"] == "RUNNING"
    assert list(before["handoffs"]) == [f"{task}:1"]
    assert "handoffs" not in found


async def test_what_was_mailed_and_is_done_already_leaves_no_handoff(
    house: House, waiter: Waiter
) -> None:
    await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await waiter.turn([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(house)
    token = str(await house.client.hget(house.keys.task(task), "token"), "ascii")

    turned = await waiter.turn([Settled(task, token, b"")], 2)

    assert turned.words == ["OK"]
    assert await house.client.exists(house.keys.handoffs()) == 0


async def test_what_came_back_once_is_left_to_the_reaper_the_second_time(
    house: House, waiter: Waiter
) -> None:
    await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await waiter.turn([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(house)
    await house.client.zadd(house.keys.handoffs(), {f"{task}:1": 1})
    await house.promoter.tick()
    await waiter.turn([], 2)
    await house.client.zadd(house.keys.handoffs(), {f"{task}:2": 1})

    await house.promoter.tick()

    found = await everything(house)
    assert (found[f"task:{task}"]["state"], found[f"task:{task}"]["token"][:2]) == ("RUNNING", "2:")
    assert "handoffs" not in found


async def test_what_was_mailed_and_not_confirmed_comes_back_at_no_cost(
    house: House, waiter: Waiter
) -> None:
    await submitted(house)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await waiter.turn([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(house)
    await house.client.hset(house.keys.waiter("w1"), "until", 0)
    await house.client.zadd(house.keys.handoffs(), {f"{task}:1": 1})

    await house.promoter.tick()

    found = (await everything(house))[f"task:{task}"]
    assert (found["state"], found.get("attempts")) == ("READY", None)
    assert (await waiter.turn([], 0)).answer.grants == []
