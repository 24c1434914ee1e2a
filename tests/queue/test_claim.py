"""Claims by hand: which tasks they return, in which order, and how long they wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from rqueue import Lease, State
from rqueue.core.claim import Answer, WaitingClaim
from rqueue.task.lane import Offer
from rqueue.worker.manual import LEAVING, ManualClaim
from tests.harness import Harness, build
from tests.queue.until import claims_waiting, until
from tests.servers import Server


def ids(leases: list[Lease]) -> list[str]:
    return [lease.id for lease in leases]


async def test_the_most_urgent_task_is_claimed_first_then_the_earliest(harness: Harness) -> None:
    queue = harness.queue
    low = await queue.enqueue("code", priority=90)
    early, late = await queue.enqueue_many([queue.call("mail"), queue.call("code")])
    urgent = await queue.enqueue("mail", priority=1)

    leases = await queue.claim(worker="w1", n=10)

    assert ids(leases) == [urgent.id, early.id, late.id, low.id]


async def test_a_thousand_equal_tasks_are_claimed_in_the_order_of_their_submit(
    harness: Harness,
) -> None:
    handles = await harness.queue.enqueue_many([harness.queue.call("code", n) for n in range(1000)])

    first = await harness.queue.claim(worker="w1", n=500)
    second = await harness.queue.claim(worker="w1", n=500)

    assert ids(first) + ids(second) == [handle.id for handle in handles]
    assert [lease.task.payload for lease in first[:3]] == [0, 1, 2]


async def test_a_claim_returns_only_tasks_of_its_types(harness: Harness) -> None:
    queue = harness.queue
    code, mail = await queue.enqueue("code"), await queue.enqueue("mail")

    assert await queue.claim(worker="w1", types=["other"]) == []
    assert await queue.claim(worker="w1", types=[]) == []
    assert ids(await queue.claim(worker="w1", types=["mail"], n=5)) == [mail.id]
    assert ids(await queue.claim(worker="w1", n=5)) == [code.id]


async def test_capabilities_must_all_be_offered(harness: Harness) -> None:
    queue = harness.queue
    both = await queue.enqueue("code", required_capabilities=["git", "web"], priority=1)
    none = await queue.enqueue("code")

    assert ids(await queue.claim(worker="w1", capabilities={"git"}, n=5)) == [none.id]
    assert await queue.claim(worker="w1", capabilities={"git"}, n=5) == []
    offered = {"web", "git", "gpu"}
    assert ids(await queue.claim(worker="w1", capabilities=offered, n=5)) == [both.id]


async def test_a_task_for_an_agent_waits_for_that_agent(harness: Harness) -> None:
    queue = harness.queue
    task = await queue.enqueue("code", agent_name="coder")

    assert await queue.claim(worker="w1") == []
    assert await queue.claim(worker="w1", agents=["writer"]) == []
    assert ids(await queue.claim(worker="w1", agents=["writer", "coder"])) == [task.id]


async def test_a_claim_returns_no_more_tasks_than_requested(harness: Harness) -> None:
    await harness.queue.enqueue_many([{"type": "code"}] * 5)

    assert len(await harness.queue.claim(worker="w1")) == 1
    assert len(await harness.queue.claim(worker="w1", n=3)) == 3
    assert len(await harness.queue.claim(worker="w1", n=3)) == 1
    assert await harness.queue.claim(worker="w1", n=3) == []


async def test_a_lease_describes_the_claimed_task(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1}, tags=["a"])

    (lease,) = await harness.queue.claim(worker="w1")

    assert (lease.id, lease.worker) == (handle.id, "w1")
    assert (lease.task.payload, lease.task.spec.tags) == ({"n": 1}, ("a",))
    assert (lease.task.state, lease.task.epoch) == (State.CLAIMED, 1)
    assert lease.token.startswith("1:")
    assert lease.token.split(":")[1] not in repr(lease)
    seen = await handle.task()
    assert seen.claim is not None
    assert (seen.state, seen.claim.agent_id) == (State.CLAIMED, "w1")


async def test_several_claims_with_one_name_return_distinct_tasks(harness: Harness) -> None:
    handles = await harness.queue.enqueue_many([{"type": "code"}] * 40)

    claims = [harness.queue.claim(worker="w1", n=2) for _ in range(20)]
    leases = [lease for found in await asyncio.gather(*claims) for lease in found]

    assert sorted(ids(leases)) == [handle.id for handle in handles]
    assert len({lease.token for lease in leases}) == 20


async def test_several_waiting_claims_with_one_name_return_distinct_tasks(harness: Harness) -> None:
    waiting = [asyncio.create_task(harness.queue.claim(worker="w1", wait=30)) for _ in range(10)]
    await claims_waiting(harness, 10)

    handles = await harness.queue.enqueue_many([{"type": "code"}] * 10)
    leases = [lease for found in await asyncio.gather(*waiting) for lease in found]

    assert sorted(ids(leases)) == [handle.id for handle in handles]
    for lease in leases:
        await lease.start()
        await lease.complete()


async def test_a_waiting_claim_is_answered_in_one_hop(harness: Harness) -> None:
    await harness.claimed()
    waiting = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)

    handle = await harness.queue.enqueue("code")
    state = await handle.status()
    (lease,) = await waiting

    assert state is State.CLAIMED
    assert lease.id == handle.id
    await lease.start()
    await lease.complete("done")
    assert await handle.result() == "done"


async def test_a_waiting_claim_serves_new_lanes(harness: Harness) -> None:
    await harness.queue.enqueue("old")
    await harness.queue.claim(worker="w0")
    waiting = asyncio.create_task(harness.queue.claim(worker="w1", types=["new"], wait=30))
    await claims_waiting(harness, 1)

    handle = await harness.queue.enqueue("new", priority_boost_per_minute=7)

    assert ids(await waiting) == [handle.id]


async def test_a_waiting_claim_without_an_answer_returns_nothing(harness: Harness) -> None:
    found = await harness.queue.claim(worker="w1", wait=0.05)

    assert found == []
    await claims_waiting(harness, 0)
    handle = await harness.queue.enqueue("code")
    assert await handle.status() is State.READY


async def test_a_claim_may_wait_longer_than_one_call(valkey: Server) -> None:
    harness = build(valkey.connection(), valkey.client(), claim_wait_sec=0.02)
    waiting = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)
    (waiter,) = await harness.client.keys("*}:waiter:*")

    async def called_repeatedly() -> bool:
        return int(await harness.client.hget(waiter, "seq")) >= 8

    await until(called_repeatedly)
    handle = await harness.queue.enqueue("code")

    assert ids(await waiting) == [handle.id]
    await harness.queue.aclose()
    await harness.client.aclose()


async def test_a_cancelled_waiting_claim_leaves_nothing_behind(harness: Harness) -> None:
    gone = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)

    gone.cancel()
    await asyncio.gather(gone, *LEAVING, return_exceptions=True)
    await asyncio.gather(*LEAVING)
    handle = await harness.queue.enqueue("code")

    assert await handle.status() is State.READY
    assert ids(await harness.queue.claim(worker="w2")) == [handle.id]


async def test_a_task_delivered_to_a_cancelled_claim_goes_to_another(harness: Harness) -> None:
    await harness.claimed()
    gone = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)

    handle = await harness.queue.enqueue("code")
    gone.cancel()
    with suppress(asyncio.CancelledError):
        (lease,) = await gone
        await lease.release()
    await asyncio.gather(*LEAVING)

    assert ids(await harness.queue.claim(worker="w2", wait=5)) == [handle.id]


@pytest.mark.parametrize("wait", [0, 30])
async def test_a_cancelled_claim_holds_no_task(harness: Harness, wait: float) -> None:
    """The claim is cancelled after each step; its task can be claimed immediately."""
    handle = await harness.queue.enqueue("code")

    for steps in range(12):
        gone = asyncio.create_task(harness.queue.claim(worker="w1", wait=wait))
        for _ in range(steps):
            await asyncio.sleep(0)
        gone.cancel()
        with suppress(asyncio.CancelledError):
            for lease in await gone:
                await lease.release()
        await asyncio.gather(*LEAVING)

        (lease,) = await harness.queue.claim(worker="w2")
        assert lease.id == handle.id
        await lease.release()


async def test_a_claim_cancelled_between_two_answers_releases_both_tasks(harness: Harness) -> None:
    claim = ManualClaim(harness.queue._internals.shard, "w1", Offer.of(["code"]))
    await harness.queue.enqueue("code")
    await claim.send_claim(1)
    send_claim = claim.send_claim

    async def slow(n: int, *, wait_ms: int = 0) -> Answer:
        if n == 0 and claim.given:
            await asyncio.Event().wait()
        return await send_claim(n, wait_ms=wait_ms)

    claim.send_claim = slow  # type: ignore[method-assign]
    await harness.queue.enqueue("code")
    waiting = asyncio.create_task(claim.wait(3, asyncio.get_running_loop().time() + 60))
    await until(lambda: counted(harness, State.CLAIMED, 2))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    claim.send_claim = send_claim  # type: ignore[method-assign]
    await claim.leave()

    assert await counted(harness, State.READY, 2)


async def counted(harness: Harness, state: State, number: int) -> bool:
    return (await harness.queue.counts())[state] == number


async def test_a_waiting_claim_is_not_answered_by_a_server_that_lost_its_data(
    harness: Harness,
) -> None:
    await harness.queue.enqueue_many([harness.queue.call(type) for type in ("a", "b")])
    waiter = WaitingClaim(
        harness.queue._internals.shard, "w1", Offer.of(["a"]), name="w1", lasts=True
    )
    await waiter.claim(2)
    await harness.client.flushall()
    await harness.queue.enqueue_many([harness.queue.call(type) for type in ("b", "c")])

    assert (await waiter.claim(2)).grants == []
