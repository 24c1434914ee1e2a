"""exchange: finished tasks are completed and free slots are filled, in one call."""

from __future__ import annotations

import pytest

from rqueue.core.claim import WaitingClaim, read_mailbox
from rqueue.core.leases import Settled
from rqueue.task.lane import Offer
from tests.harness import Harness
from tests.lua.rows import a_row, everything, submit, submitted


@pytest.fixture
def waiter(harness: Harness) -> WaitingClaim:
    return WaitingClaim(harness.queue._internals.shard, "w1", Offer.of(None), name="w1", lasts=True)


async def test_an_exchange_completes_and_claims_running_tasks(
    harness: Harness, waiter: WaitingClaim
) -> None:
    first, second = await submitted(harness), await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants

    turned = await waiter.exchange([Settled(grant.task, grant.token, b'"done"')], 1)

    found = await everything(harness)
    assert turned.words == ["OK"]
    assert [grant.task for grant in turned.answer.grants] == [second]
    assert found[f"task:{first}"]["state"] == "COMPLETED"
    assert found[f"result:{first}"] == '"done"'
    assert found[f"task:{second}"]["state"] == "RUNNING"


async def test_a_repeated_call_gets_the_same_reply_of_both_halves(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submit(harness, [a_row(), a_row()])
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    done = [Settled(grant.task, grant.token, b"")]
    first = await waiter.exchange(done, 1)
    before = await harness.dump()

    waiter.seq -= 1
    again = await waiter.exchange(done, 1)

    assert again.words == first.words
    assert [g.task for g in again.answer.grants] == [g.task for g in first.answer.grants]
    assert await harness.dump() == before


async def test_a_stale_token_completes_nothing_and_the_claim_succeeds(
    harness: Harness, waiter: WaitingClaim
) -> None:
    first, second = await submitted(harness), await submitted(harness)
    await waiter.exchange([], 1)

    turned = await waiter.exchange([Settled(first, "1:other", b"")], 1)

    assert turned.words == ["LOST"]
    assert [grant.task for grant in turned.answer.grants] == [second]
    assert (await everything(harness))[f"task:{first}"]["state"] == "RUNNING"


async def test_an_exchange_with_an_old_lane_version_gets_the_lanes_and_completes_once(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await harness.queue.enqueue("other")

    turned = await waiter.exchange([Settled(grant.task, grant.token, b"")], 1)

    assert turned.words == ["OK"]
    assert len(turned.answer.grants) == 1
    assert (await harness.queue.counts())["COMPLETED"] == 1


async def test_with_nothing_to_claim_it_waits_and_a_delivery_is_started(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    parked = await waiter.exchange([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(harness)
    brought = await read_mailbox(harness.queue._internals.shard, waiter.mailbox, 1)
    assert brought is not None
    (mailed,) = waiter.delivered_with(brought)
    before = await everything(harness)

    turned = await waiter.exchange([], 2, wait_ms=5000)

    found = await everything(harness)
    assert parked.answer.wait_ms == 5000
    assert turned.answer.grants == [mailed]
    assert mailed.task == task
    assert before[f"task:{task}"]["state"] == found[f"task:{task}"]["state"] == "RUNNING"
    assert list(before["handoffs"]) == [f"{task}:1"]
    assert "handoffs" not in found


async def test_a_delivery_that_is_completed_already_is_removed(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await waiter.exchange([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(harness)
    token = str(await harness.client.hget(harness.keys.task(task), "token"), "ascii")

    turned = await waiter.exchange([Settled(task, token, b"")], 2)

    assert turned.words == ["OK"]
    assert await harness.client.exists(harness.keys.deliveries()) == 0


async def test_a_task_that_was_recalled_once_is_left_to_the_reaper_the_second_time(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await waiter.exchange([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(harness)
    await harness.client.zadd(harness.keys.deliveries(), {f"{task}:1": 1})
    await harness.promoter.tick()
    await waiter.exchange([], 2)
    await harness.client.zadd(harness.keys.deliveries(), {f"{task}:2": 1})

    await harness.promoter.tick()

    found = await everything(harness)
    assert (found[f"task:{task}"]["state"], found[f"task:{task}"]["token"][:2]) == ("RUNNING", "2:")
    assert "handoffs" not in found


async def test_an_unconfirmed_delivery_is_recalled_without_an_attempt(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await submitted(harness)
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await waiter.exchange([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000)
    task = await submitted(harness)
    await harness.client.hset(harness.keys.waiter("w1"), "until", 0)
    await harness.client.zadd(harness.keys.deliveries(), {f"{task}:1": 1})

    await harness.promoter.tick()

    found = (await everything(harness))[f"task:{task}"]
    assert (found["state"], found.get("attempts")) == ("READY", None)
    assert (await waiter.exchange([], 0)).answer.grants == []
