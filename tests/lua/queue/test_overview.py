"""overview: what a live view shows, bounded, whatever is stored."""

from __future__ import annotations

from rqueue import State
from rqueue.core.counts import Failure, Overview, WorkerLoad, read_overview
from rqueue.process.scheduler import lead
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

TERMS: dict[str, Argument] = {
    "rates": "[[1,100000]]", "bounds": "[10000000,30000000]",
    "workers": 1, "leases": 2, "events": 1,
}  # fmt: skip


async def seen(harness: Harness) -> Overview:
    """An overview, which must change nothing."""
    before = await harness.dump()
    found = await read_overview(harness.queue._internals.shard)
    assert await harness.dump() == before
    return found


async def test_an_empty_shard_has_nothing_to_show(harness: Harness) -> None:
    assert await seen(harness) == Overview(
        leader=None, waits_ms={}, workers=[], active=[], failures=[]
    )


async def test_a_running_task_is_shown_with_its_worker(harness: Harness) -> None:
    lease = await harness.running("code")
    await harness.queue.enqueue("docs")
    (held,) = await harness.queue.claim(worker="w2", types=["docs"])

    found = await seen(harness)

    assert [(one.task, one.type, one.state, one.worker) for one in found.active] == [
        (lease.id, "code", State.RUNNING, "w1"),
        (held.id, "docs", State.CLAIMED, "w2"),
    ]
    assert sorted((hand.name, hand.held) for hand in found.workers) == [("w1", 1), ("w2", 1)]


async def test_the_busiest_worker_comes_first_and_one_that_left_is_shown(harness: Harness) -> None:
    for _ in range(2):
        await harness.running()
    await harness.client.zadd(harness.keys.workers(), {"away": 1, "w2": 2})

    names = [(hand.name, hand.held) for hand in (await seen(harness)).workers]

    assert names == [("w1", 2), ("w2", 0), ("away", 0)]


async def test_a_wait_is_the_longest_of_what_is_next_in_a_tier(harness: Harness) -> None:
    old = await harness.queue.enqueue("code", priority=90)
    for priority in (5, 50):
        await harness.queue.enqueue("code", priority=priority)
    await harness.queue.enqueue("docs")
    await harness.client.hset(harness.keys.task(old.id.ulid), "entry", "1-1")

    waits = (await seen(harness)).waits_ms

    assert waits["code"] > 10**12
    assert 0 <= waits["docs"] < 60_000


async def test_failures_are_shown_and_other_events_are_not(harness: Harness) -> None:
    again, dead, gone = [await harness.running() for _ in range(3)]
    await again.fail("timeout", "too slow")
    await dead.fail("error", "broken", permanent=True)
    await harness.queue.cancel(gone.id)

    failures = (await seen(harness)).failures

    assert failures == [
        Failure(dead.id, "task.dead_lettered", "error", failures[0].ago_ms),
        Failure(again.id, "task.retrying", "timeout", failures[1].ago_ms),
    ]


async def test_a_leader_is_shown_while_its_term_lasts(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "me", ttl_ms=60_000)

    assert (await seen(harness)).leader == "me"

    await harness.client.hset(harness.keys.leader(), "until_ms", 1)

    assert (await seen(harness)).leader is None


async def test_every_list_ends_at_its_limit(harness: Harness) -> None:
    for number in range(3):
        await harness.queue.enqueue("code")
        (lease,) = await harness.queue.claim(worker=f"w{number}", types=["code"])
        await lease.start()
        await lease.fail("error", "no")
        await harness.running()

    _, _, _, _, workers, consumers, held, events = await run_move(harness, "queue/overview", TERMS)

    assert (len(workers), len(held), len(events)) == (2, 2, 1)
    assert len(consumers) == 3


async def test_broken_values_do_not_stop_the_others(harness: Harness) -> None:
    ready = await harness.queue.enqueue("code", priority=1)
    await harness.queue.enqueue("code", priority=50)
    lost = await harness.running("docs")
    torn = await harness.running("docs")
    whole = await harness.running("docs")
    await harness.client.hset(harness.keys.task(ready.id.ulid), "entry", b"\xff")
    await harness.client.hset(harness.keys.task(torn.id.ulid), "holder", b"\xff")
    entry = await harness.client.hget(harness.keys.task(lost.id.ulid), "entry")
    await harness.client.xdel(harness.keys.ready(), entry)
    await harness.client.zadd(harness.keys.workers(), {b"\xff": 1})
    await harness.client.xadd(harness.keys.events(), {"event": "task.retrying"})

    found = await seen(harness)

    assert [one.task for one in found.active] == [whole.id]
    assert found.waits_ms["code"] < 60_000
    assert found.workers[-1] == WorkerLoad(
        "\N{REPLACEMENT CHARACTER}", found.workers[-1].silent_ms, 0
    )
    assert len(found.failures) == 1
