"""Ended tasks go to the queue's archive, also through a client configured without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from rqueue.clock import SYSTEM
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import HeldLease, Settled
from rqueue.core.leases import complete as complete_many
from rqueue.core.notes import note
from rqueue.core.outbox import join
from rqueue.core.timers import expire
from rqueue.dags import submit as dag_submit
from rqueue.errors import LeaseLost, Overloaded
from rqueue.task.lane import Offer
from rqueue.task.task import Note
from tests.harness import Harness, build, opened
from tests.lua.dag.dags import committed_dag, unsent_dag
from tests.lua.task.keyspace import expiring_keys
from tests.servers import Server

Way = Callable[[Harness], Awaitable[list[str]]]


@pytest.fixture
async def joined(server: Server) -> AsyncIterator[Harness]:
    """A harness configured without an archive, on a queue that has joined one."""
    client, connection = server.client(), server.connection()
    await join(build(connection, client, archive="postgres", max_outbox=2).queue._internals.shard)
    harness = build(connection, client, keep_reviews=1)
    yield harness
    await harness.queue.aclose()
    await client.aclose()


async def complete(harness: Harness) -> list[str]:
    await (await harness.running(tags=["t"])).complete("done")
    return ["1 COMPLETED"]


async def complete_plain(harness: Harness) -> list[str]:
    await (await harness.running()).complete("done")
    return ["1 COMPLETED"]


async def exchange(harness: Harness) -> list[str]:
    await harness.queue.enqueue("code")
    waiter = WaitingClaim(
        harness.queue._internals.shard, "w1", Offer.of(None), name="w1", lasts=True
    )
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await waiter.exchange([Settled(grant.task, grant.token, b'"done"')], 1)
    return ["1 COMPLETED"]


async def fail(harness: Harness) -> list[str]:
    await (await harness.running()).fail(permanent=True)
    return ["1 DEAD_LETTERED {"]


async def reap(harness: Harness) -> list[str]:
    await harness.age(await harness.running(max_attempts=1), 100)
    await harness.reaper.tick()
    return ["1 DEAD_LETTERED {"]


async def cancel(harness: Harness) -> list[str]:
    await harness.queue.cancel((await harness.queue.enqueue("code", tags=["t"])).id)
    return ["1 CANCELLED"]


async def cascade(harness: Harness) -> list[str]:
    first = (await harness.queue.enqueue("code")).id
    await harness.queue.enqueue("code", depends_on=[first])
    await harness.queue.cancel(first)
    return ["1 CANCELLED", "1 CANCELLED"]


async def expired(harness: Harness, rule: str) -> None:
    deadline = SYSTEM.now() + timedelta(hours=1)
    task = (await harness.queue.enqueue("code", deadline=deadline, on_deadline=rule)).id
    await harness.client.zadd(harness.keys.deadlines(), {task.ulid: 1})
    await expire(harness.queue._internals.shard)


async def expire_dead(harness: Harness) -> list[str]:
    await expired(harness, "fail")
    return ["1 DEAD_LETTERED {"]


async def expire_cancelled(harness: Harness) -> list[str]:
    await expired(harness, "cancel")
    return ["1 CANCELLED"]


async def discard(harness: Harness) -> list[str]:
    lease = await harness.running()
    await lease.fail(permanent=True)
    await harness.queue.dead.discard(lease.id)
    return ["1 DEAD_LETTERED {", "1 CANCELLED"]


async def replace(harness: Harness) -> list[str]:
    await harness.queue.enqueue("code", idempotency_key="k")
    await harness.queue.enqueue("code", idempotency_key="k", if_exists="replace")
    return ["1 CANCELLED"]


async def cancel_dag(harness: Harness) -> list[str]:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})
    await dag.cancel("no need")
    await dag.forget()
    return ["1 CANCELLED", "1 CANCELLED"]


async def revive(harness: Harness) -> list[str]:
    lease = await harness.running()
    await lease.fail(permanent=True)
    await harness.queue.dead.retry(lease.id)
    (again,) = await harness.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    return ["1 DEAD_LETTERED {", "2 COMPLETED"]


async def late_cost(harness: Harness) -> list[str]:
    lease = await harness.running(max_attempts=1)
    await harness.age(lease, 100)
    await harness.reaper.tick()
    with pytest.raises(LeaseLost):
        await note(
            harness.queue._internals.shard,
            HeldLease(lease.id.ulid, lease.token),
            Note(usd=0.5),
            seq=1,
        )
    return ["1 DEAD_LETTERED {", "1 COST {"]


WAYS: list[Way] = [
    complete, complete_plain, exchange, fail, reap, cancel, cascade, expire_dead, expire_cancelled,
    discard, replace, cancel_dag, revive, late_cost,
]  # fmt: skip


async def lines(harness: Harness) -> list[str]:
    """The outbox value of each life in order, without snapshots."""
    entries = await harness.client.xrange(harness.keys.outbox())
    values = [value.decode() for _, fields in entries for value in fields.values()]
    return [value.partition("{")[0] + "{" * ("{" in value) for value in values]


async def counter(harness: Harness) -> int:
    return int(await harness.client.hget(harness.keys.stats(), "outbox") or 0)


@pytest.mark.parametrize("way", WAYS)
async def test_every_end_goes_to_an_archive_that_another_client_has_joined(
    joined: Harness, way: Way
) -> None:
    ends = await way(joined)

    assert await lines(joined) == ends
    assert await counter(joined) == len(ends)
    assert await expiring_keys(joined) == set()


@pytest.mark.parametrize("way", WAYS)
async def test_without_an_archive_no_end_is_written_to_the_outbox(
    harness: Harness, way: Way
) -> None:
    await way(harness)

    assert await harness.client.exists(harness.keys.outbox(), harness.keys.archiving()) == 0
    assert await counter(harness) == 0


@pytest.mark.parametrize(("archive", "checks"), [("none", 1), ("postgres", 0)])
async def test_a_call_checks_once_for_many_tasks_and_never_when_configured(
    valkey: Server, archive: str, checks: int
) -> None:
    async with opened(valkey, archive=archive) as harness:
        await harness.queue.enqueue_many([{"type": "code"}] * 3)
        held = await harness.queue.claim(worker="w1", n=3)
        for lease in held:
            await lease.start()
        done = [Settled(lease.id.ulid, lease.token, b"") for lease in held]
        keyed = [{"type": "code", "idempotency_key": f"k{n}"} for n in range(3)]
        again = [{**call, "if_exists": "replace"} for call in keyed]

        assert (
            await archive_checks(
                harness, valkey, complete_many(harness.queue._internals.shard, done)
            )
            == checks
        )
        assert await archive_checks(harness, valkey, harness.queue.enqueue_many(keyed)) == checks
        assert await archive_checks(harness, valkey, harness.queue.enqueue_many(again)) == checks
        assert await archive_checks(harness, valkey, harness.queue.purge(states=None)) == checks
        assert (await harness.queue.counts()).outbox == (0 if checks else 9)


async def archive_checks(harness: Harness, server: Server, call: Awaitable[object]) -> int:
    """How often a call checks whether the queue has an archive."""
    key, found = harness.keys.archiving(), 0
    client: Any = server.client()
    async with client.monitor() as monitor:
        await call
        await harness.client.echo("over")
        while (seen := (await monitor.next_command())["command"]) != "ECHO over":
            found += key in seen.split(" ")
    await client.aclose()
    return found


async def test_a_full_outbox_refuses_a_client_configured_without_an_archive(
    joined: Harness,
) -> None:
    for _ in range(2):
        await (await joined.running()).complete()
    before = await joined.dump()

    calls: list[Any] = [
        joined.queue.enqueue("code"),
        joined.queue.enqueue("code", idempotency_key="k"),
        joined.queue.enqueue_many([{"type": "code"}] * 3),
        dag_submit.submit(
            joined.queue._internals.shard, unsent_dag(joined, {"a": [], "b": ["a"]}).draft
        ),
    ]
    for call in calls:
        with pytest.raises(Overloaded, match="2 ended tasks wait for the archive"):
            await call

    assert await joined.dump() == before


async def test_an_archive_may_take_any_number(joined: Harness) -> None:
    await joined.client.set(joined.keys.archiving(), 0)
    for _ in range(3):
        await (await joined.running()).complete()

    assert (await joined.queue.enqueue("code")).created


@pytest.mark.parametrize("resolution", ["retry", "discard", "escalate"])
async def test_no_review_is_trimmed_before_it_is_archived(joined: Harness, resolution: str) -> None:
    await joined.client.set(joined.keys.archiving(), 0)
    # A stream is trimmed by whole nodes of a hundred entries.
    for n in range(150):
        await joined.client.xadd(joined.keys.reviews(), {"task": str(n)})
    lease = await joined.running()
    await lease.fail(permanent=True)

    if resolution == "escalate":
        await joined.queue.dead.decide(lease.id, "escalate")
    else:
        await getattr(joined.queue.dead, resolution)(lease.id)

    assert await joined.client.xlen(joined.keys.reviews()) == 151
