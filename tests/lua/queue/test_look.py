"""look: what a live view shows, whatever there is, and bounded."""

from __future__ import annotations

from rqueue import State
from rqueue.store.leading import lead
from rqueue.store.look import Failure, Hand, Look, look
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import ask

TERMS: dict[str, Argument] = {
    "rates": "[[1,100000]]", "bounds": "[10000000,30000000]",
    "workers": 1, "leases": 2, "events": 1,
}  # fmt: skip


async def seen(house: House) -> Look:
    """A look, which must change nothing."""
    before = await house.dump()
    found = await look(house.queue.shard)
    assert await house.dump() == before
    return found


async def test_an_empty_shard_has_nothing_to_show(house: House) -> None:
    assert await seen(house) == Look(leader=None, waits_ms={}, hands=[], underway=[], failures=[])


async def test_what_runs_is_shown_with_its_worker(house: House) -> None:
    lease = await house.running("code")
    await house.queue.enqueue("docs")
    (held,) = await house.queue.claim(worker="w2", types=["docs"])

    found = await seen(house)

    assert [(one.task, one.type, one.state, one.worker) for one in found.underway] == [
        (lease.id, "code", State.RUNNING, "w1"),
        (held.id, "docs", State.CLAIMED, "w2"),
    ]
    assert sorted((hand.name, hand.held) for hand in found.hands) == [("w1", 1), ("w2", 1)]


async def test_the_busiest_worker_comes_first_and_one_that_left_is_shown(house: House) -> None:
    for _ in range(2):
        await house.running()
    await house.client.zadd(house.keys.workers(), {"away": 1, "w2": 2})

    names = [(hand.name, hand.held) for hand in (await seen(house)).hands]

    assert names == [("w1", 2), ("w2", 0), ("away", 0)]


async def test_a_wait_is_the_longest_of_what_is_next_in_a_tier(house: House) -> None:
    old = await house.queue.enqueue("code", priority=90)
    for priority in (5, 50):
        await house.queue.enqueue("code", priority=priority)
    await house.queue.enqueue("docs")
    await house.client.hset(house.keys.task(old.id.ulid), "entry", "1-1")

    waits = (await seen(house)).waits_ms

    assert waits["code"] > 10**12
    assert 0 <= waits["docs"] < 60_000


async def test_failures_are_shown_and_other_events_are_not(house: House) -> None:
    again, dead, gone = [await house.running() for _ in range(3)]
    await again.fail("timeout", "too slow")
    await dead.fail("error", "broken", permanent=True)
    await house.queue.cancel(gone.id)

    failures = (await seen(house)).failures

    assert failures == [
        Failure(dead.id, "task.dead_lettered", "error", failures[0].ago_ms),
        Failure(again.id, "task.retrying", "timeout", failures[1].ago_ms),
    ]


async def test_a_leader_is_shown_while_its_term_lasts(house: House) -> None:
    await lead(house.queue.shard, "me", ttl_ms=60_000)

    assert (await seen(house)).leader == "me"

    await house.client.hset(house.keys.leader(), "until_ms", 1)

    assert (await seen(house)).leader is None


async def test_every_list_ends_at_its_limit(house: House) -> None:
    for number in range(3):
        await house.queue.enqueue("code")
        (lease,) = await house.queue.claim(worker=f"w{number}", types=["code"])
        await lease.start()
        await lease.fail("error", "no")
        await house.running()

    _, _, _, _, workers, consumers, held, events = await ask(house, "queue/look", TERMS)

    assert (len(workers), len(held), len(events)) == (2, 2, 1)
    assert len(consumers) == 3


async def test_broken_bytes_stand_in_nobodys_way(house: House) -> None:
    ready = await house.queue.enqueue("code", priority=1)
    await house.queue.enqueue("code", priority=50)
    lost = await house.running("docs")
    torn = await house.running("docs")
    whole = await house.running("docs")
    await house.client.hset(house.keys.task(ready.id.ulid), "entry", b"\xff")
    await house.client.hset(house.keys.task(torn.id.ulid), "holder", b"\xff")
    entry = await house.client.hget(house.keys.task(lost.id.ulid), "entry")
    await house.client.xdel(house.keys.ready(), entry)
    await house.client.zadd(house.keys.workers(), {b"\xff": 1})
    await house.client.xadd(house.keys.events(), {"event": "task.retrying"})

    found = await seen(house)

    assert [one.task for one in found.underway] == [whole.id]
    assert found.waits_ms["code"] < 60_000
    assert found.hands[-1] == Hand("\N{REPLACEMENT CHARACTER}", found.hands[-1].silent_ms, 0)
    assert len(found.failures) == 1
