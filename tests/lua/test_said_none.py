"""What ends goes to the archive that the queue has, though who ends it says that there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from rqueue.clock import SYSTEM
from rqueue.errors import LeaseLost, Overloaded
from rqueue.model.note import Note
from rqueue.policy.capability import Offer
from rqueue.store import planting
from rqueue.store.claims import Waiter
from rqueue.store.leases import Held, Settled
from rqueue.store.leases import complete as complete_many
from rqueue.store.notes import note
from rqueue.store.outbox import join
from rqueue.store.passage import expire
from tests.house import House, build, opened
from tests.lua.dag.planted import a_plant, planted
from tests.lua.task.afterwards import expiring
from tests.servers import Server

Way = Callable[[House], Awaitable[list[str]]]


@pytest.fixture
async def joined(server: Server) -> AsyncIterator[House]:
    """A house that says none, on a queue that another has joined an archive to."""
    client, connection = server.client(), server.connection()
    await join(build(connection, client, archive="postgres", max_outbox=2).queue.shard)
    house = build(connection, client, keep_reviews=1)
    yield house
    await house.queue.aclose()
    await client.aclose()


async def complete(house: House) -> list[str]:
    await (await house.running(tags=["t"])).complete("done")
    return ["1 COMPLETED"]


async def complete_plain(house: House) -> list[str]:
    await (await house.running()).complete("done")
    return ["1 COMPLETED"]


async def turn(house: House) -> list[str]:
    await house.queue.enqueue("code")
    waiter = Waiter(house.queue.shard, "w1", Offer.of(None), name="w1", lasts=True)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await waiter.turn([Settled(grant.task, grant.token, b'"done"')], 1)
    return ["1 COMPLETED"]


async def fail(house: House) -> list[str]:
    await (await house.running()).fail(permanent=True)
    return ["1 DEAD_LETTERED {"]


async def reap(house: House) -> list[str]:
    await house.age(await house.running(max_attempts=1), 100)
    await house.reaper.tick()
    return ["1 DEAD_LETTERED {"]


async def cancel(house: House) -> list[str]:
    await house.queue.cancel((await house.queue.enqueue("code", tags=["t"])).id)
    return ["1 CANCELLED"]


async def cascade(house: House) -> list[str]:
    first = (await house.queue.enqueue("code")).id
    await house.queue.enqueue("code", depends_on=[first])
    await house.queue.cancel(first)
    return ["1 CANCELLED", "1 CANCELLED"]


async def expired(house: House, rule: str) -> None:
    deadline = SYSTEM.now() + timedelta(hours=1)
    task = (await house.queue.enqueue("code", deadline=deadline, on_deadline=rule)).id
    await house.client.zadd(house.keys.deadlines(), {task.ulid: 1})
    await expire(house.queue.shard)


async def expire_dead(house: House) -> list[str]:
    await expired(house, "fail")
    return ["1 DEAD_LETTERED {"]


async def expire_cancelled(house: House) -> list[str]:
    await expired(house, "cancel")
    return ["1 CANCELLED"]


async def discard(house: House) -> list[str]:
    lease = await house.running()
    await lease.fail(permanent=True)
    await house.queue.discard(lease.id)
    return ["1 DEAD_LETTERED {", "1 CANCELLED"]


async def replace(house: House) -> list[str]:
    await house.queue.enqueue("code", idempotency_key="k")
    await house.queue.enqueue("code", idempotency_key="k", if_exists="replace")
    return ["1 CANCELLED"]


async def cancel_dag(house: House) -> list[str]:
    plant = await planted(house, {"a": [], "b": ["a"]})
    await plant.cancel("no need")
    await plant.forget()
    return ["1 CANCELLED", "1 CANCELLED"]


async def revive(house: House) -> list[str]:
    lease = await house.running()
    await lease.fail(permanent=True)
    await house.queue.revive(lease.id)
    (again,) = await house.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    return ["1 DEAD_LETTERED {", "2 COMPLETED"]


async def late_cost(house: House) -> list[str]:
    lease = await house.running(max_attempts=1)
    await house.age(lease, 100)
    await house.reaper.tick()
    with pytest.raises(LeaseLost):
        await note(house.queue.shard, Held(lease.id.ulid, lease.token), Note(usd=0.5), seq=1)
    return ["1 DEAD_LETTERED {", "1 COST {"]


WAYS: list[Way] = [
    complete, complete_plain, turn, fail, reap, cancel, cascade, expire_dead, expire_cancelled,
    discard, replace, cancel_dag, revive, late_cost,
]  # fmt: skip


async def lines(house: House) -> list[str]:
    """What the outbox says of each life, in the order of the ends, without the snapshots."""
    entries = await house.client.xrange(house.keys.outbox())
    values = [value.decode() for _, fields in entries for value in fields.values()]
    return [value.partition("{")[0] + "{" * ("{" in value) for value in values]


async def counter(house: House) -> int:
    return int(await house.client.hget(house.keys.stats(), "outbox") or 0)


@pytest.mark.parametrize("way", WAYS)
async def test_every_end_goes_to_the_archive_that_another_has_joined(
    joined: House, way: Way
) -> None:
    ends = await way(joined)

    assert await lines(joined) == ends
    assert await counter(joined) == len(ends)
    assert await expiring(joined) == set()


@pytest.mark.parametrize("way", WAYS)
async def test_where_nobody_has_said_yes_no_end_is_written_down(house: House, way: Way) -> None:
    await way(house)

    assert await house.client.exists(house.keys.outbox(), house.keys.archiving()) == 0
    assert await counter(house) == 0


@pytest.mark.parametrize(("archive", "looks"), [("none", 1), ("postgres", 0)])
async def test_a_call_looks_once_for_many_and_never_where_it_knows(
    valkey: Server, archive: str, looks: int
) -> None:
    async with opened(valkey, archive=archive) as house:
        await house.queue.enqueue_many([{"type": "code"}] * 3)
        held = await house.queue.claim(worker="w1", n=3)
        for lease in held:
            await lease.start()
        done = [Settled(lease.id.ulid, lease.token, b"") for lease in held]
        keyed = [{"type": "code", "idempotency_key": f"k{n}"} for n in range(3)]
        again = [{**call, "if_exists": "replace"} for call in keyed]

        assert await looked(house, valkey, complete_many(house.queue.shard, done)) == looks
        assert await looked(house, valkey, house.queue.enqueue_many(keyed)) == looks
        assert await looked(house, valkey, house.queue.enqueue_many(again)) == looks
        assert await looked(house, valkey, house.queue.cancel_many()) == looks
        assert (await house.queue.counts()).outbox == (0 if looks else 9)


async def looked(house: House, server: Server, call: Awaitable[object]) -> int:
    """How often the server was asked during a call whether there is an archive."""
    key, found = house.keys.archiving(), 0
    client: Any = server.client()
    async with client.monitor() as monitor:
        await call
        await house.client.echo("over")
        while (seen := (await monitor.next_command())["command"]) != "ECHO over":
            found += key in seen.split(" ")
    await client.aclose()
    return found


async def test_a_full_outbox_is_felt_by_who_does_not_know_the_archive(joined: House) -> None:
    for _ in range(2):
        await (await joined.running()).complete()
    before = await joined.dump()

    calls: list[Any] = [
        joined.queue.enqueue("code"),
        joined.queue.enqueue("code", idempotency_key="k"),
        joined.queue.enqueue_many([{"type": "code"}] * 3),
        planting.submit(joined.queue.shard, a_plant(joined, {"a": [], "b": ["a"]}).planting),
    ]
    for call in calls:
        with pytest.raises(Overloaded, match="2 ended tasks wait for the archive"):
            await call

    assert await joined.dump() == before


async def test_an_archive_may_take_any_number(joined: House) -> None:
    await joined.client.set(joined.keys.archiving(), 0)
    for _ in range(3):
        await (await joined.running()).complete()

    assert (await joined.queue.enqueue("code")).created


@pytest.mark.parametrize("resolution", ["revive", "discard", "escalate"])
async def test_no_review_is_trimmed_that_the_archive_has_not_got(
    joined: House, resolution: str
) -> None:
    await joined.client.set(joined.keys.archiving(), 0)
    # A stream is trimmed by whole nodes of a hundred entries.
    for n in range(150):
        await joined.client.xadd(joined.keys.reviews(), {"task": str(n)})
    lease = await joined.running()
    await lease.fail(permanent=True)

    if resolution == "escalate":
        await joined.queue.resolve(lease.id, "escalate")
    else:
        await getattr(joined.queue, resolution)(lease.id)

    assert await joined.client.xlen(joined.keys.reviews()) == 151
