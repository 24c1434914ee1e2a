"""The reaper among tasks that cannot be read: none of them stops it."""

from __future__ import annotations

from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue import Lease, State
from rqueue.policy.verdict import refused
from rqueue.services.reaper import PAGE
from rqueue.store.connection import Connection
from tests.house import House, build

SILENT = 60.0


async def silent(house: House, **options: Any) -> Lease:
    """A started task whose worker is not heard any more."""
    lease = await house.running(**options)
    await house.age(lease, SILENT)
    return lease


async def write(house: House, lease: Lease, name: str, value: str | bytes) -> None:
    """Writes a field of the task's hash, as anyone could."""
    await house.client.hset(house.keys.task(lease.id.ulid), name, value)


@pytest.mark.parametrize("definition", [b"\xff", b"", b'{"t":5}', b'{"t":"code","priority":"x"}'])
async def test_an_unreadable_task_is_reaped_like_any_other(house: House, definition: bytes) -> None:
    before, broken, after = [await silent(house) for _ in range(3)]
    await write(house, broken, "def0", definition)

    reaped = await house.reaper.tick()

    assert reaped.retrying == 3
    for lease in (before, broken, after):
        assert (await house.task(lease.id)).state is State.RETRYING


async def test_a_field_of_a_newer_release_changes_nothing(house: House) -> None:
    lease = await silent(house)
    stored = b'{"t":"code","max_attempts":1,"region":"eu"}'
    await write(house, lease, "def0", stored)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.dead, task.state, task.unreadable) == (1, State.DEAD_LETTERED, None)
    assert await house.queue.runtime.reader.definition(lease.id.ulid) == stored


async def test_an_unreadable_task_is_dead_as_soon_as_a_worker_looks_at_it(house: House) -> None:
    broken, neighbour = await silent(house, priority=5), await silent(house)
    await write(house, broken, "def0", "{")
    await house.reaper.tick()
    for lease in (broken, neighbour):
        await house.queue.run_now(lease.id)

    states = []
    for worker in ("w2", "w3"):
        (again,) = await house.queue.claim(worker=worker)
        outcome = refused(again.task)
        await again.start()
        states.append(await end(again) if outcome is None else await refuse(again))

    assert states == [State.DEAD_LETTERED, State.COMPLETED]
    task = await house.task(broken.id)
    assert task.last_error == "the task's definition cannot be read: definition: is not JSON"


async def end(lease: Lease) -> State:
    """Ends a task well."""
    await lease.complete()
    return State.COMPLETED


async def refuse(lease: Lease) -> State:
    """Ends a task that cannot be read."""
    outcome = refused(lease.task)
    assert outcome is not None
    return await lease.fail(outcome.reason, outcome.message, permanent=outcome.permanent)


@pytest.mark.parametrize(
    ("name", "value"), [("holder", "x"), ("attempts", "many"), ("reclaims", "-1")]
)
async def test_a_damaged_task_is_reaped_where_the_script_can(
    house: House, name: str, value: str
) -> None:
    broken, neighbour = await silent(house), await silent(house)
    await write(house, broken, name, value)

    assert (await house.reaper.tick()).retrying == 2

    task = await house.task(neighbour.id)
    assert (task.state, task.damaged) == (State.RETRYING, ())


@pytest.mark.parametrize("damage", ["an entry that is none", "no entry", "no score"])
async def test_one_that_the_script_stumbles_over_takes_no_neighbour_with_it(
    connection: Connection,
    client: aredis.Redis,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = build(connection, client, archive="postgres")
    before = await silent(house, max_attempts=1)
    broken = await house.claimed(max_attempts=1)
    await house.age(broken, SILENT)
    after = await silent(house, max_attempts=1)
    if damage == "an entry that is none":
        await write(house, broken, "entry", "x")
    else:
        await house.client.hdel(house.keys.task(broken.id.ulid), damage.removeprefix("no "))

    reaped = await house.reaper.tick()

    assert (reaped.dead, reaped.stuck) == (2, 1)
    assert f"task {broken.id.ulid} cannot be reaped: ResponseError" in caplog.messages[-1]
    sent = {key for _, entry in await house.client.xrange(house.keys.outbox()) for key in entry}
    assert {before.id.ulid.encode(), after.id.ulid.encode()} <= sent
    await house.queue.aclose()


async def test_one_that_is_passed_over_leaves_the_rest_of_the_page(house: House) -> None:
    broken, neighbour = await silent(house), await silent(house)
    await house.client.hset(house.keys.failures(broken.id.ulid), "a", "b")

    assert (await house.reaper.tick()).retrying == 1
    assert (await house.task(neighbour.id)).state is State.RETRYING


async def test_the_pages_after_a_broken_one_are_reaped(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code")] * (PAGE + 5))
    leases = await house.queue.claim(worker="w1", n=PAGE + 5)
    for lease in leases:
        await house.age(lease, SILENT)
    for lease in leases[:3]:
        await write(house, lease, "def0", "{")

    assert (await house.reaper.tick()).ready == PAGE + 5
