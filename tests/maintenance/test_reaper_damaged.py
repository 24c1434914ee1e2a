"""The reaper and tasks that cannot be read: none of them stops it."""

from __future__ import annotations

from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue import Lease, State
from rqueue.maintenance.reaper import PAGE
from rqueue.store.connection import Connection
from rqueue.task.attempt.verdict import refused
from tests.harness import Harness, build

SILENT = 60.0


async def silent(harness: Harness, **options: Any) -> Lease:
    """A started task whose worker sends no heartbeat any more."""
    lease = await harness.running(**options)
    await harness.age(lease, SILENT)
    return lease


async def write(harness: Harness, lease: Lease, name: str, value: str | bytes) -> None:
    """Writes a field of the task's hash."""
    await harness.client.hset(harness.keys.task(lease.id.ulid), name, value)


@pytest.mark.parametrize("definition", [b"\xff", b"", b'{"t":5}', b'{"t":"code","priority":"x"}'])
async def test_an_unreadable_task_is_reaped_like_any_other(
    harness: Harness, definition: bytes
) -> None:
    before, broken, after = [await silent(harness) for _ in range(3)]
    await write(harness, broken, "def0", definition)

    reaped = await harness.reaper.tick()

    assert reaped.retrying == 3
    for lease in (before, broken, after):
        assert (await harness.task(lease.id)).state is State.RETRYING


async def test_a_field_of_a_newer_release_changes_nothing(harness: Harness) -> None:
    lease = await silent(harness)
    stored = b'{"t":"code","max_attempts":1,"region":"eu"}'
    await write(harness, lease, "def0", stored)

    reaped = await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (reaped.dead, task.state, task.unreadable) == (1, State.DEAD_LETTERED, None)
    assert await harness.queue._internals.runtime.reader.definition(lease.id.ulid) == stored


async def test_an_unreadable_task_is_dead_when_a_worker_claims_it(harness: Harness) -> None:
    broken, neighbour = await silent(harness, priority=5), await silent(harness)
    await write(harness, broken, "def0", "{")
    await harness.reaper.tick()
    for lease in (broken, neighbour):
        await harness.queue.run_now(lease.id)

    states = []
    for worker in ("w2", "w3"):
        (again,) = await harness.queue.claim(worker=worker)
        outcome = refused(again.task)
        await again.start()
        states.append(await end(again) if outcome is None else await refuse(again))

    assert states == [State.DEAD_LETTERED, State.COMPLETED]
    task = await harness.task(broken.id)
    assert task.last_error == "the task's definition cannot be read: definition: is not JSON"


async def end(lease: Lease) -> State:
    """Completes a task."""
    await lease.complete()
    return State.COMPLETED


async def refuse(lease: Lease) -> State:
    """Fails a task that cannot be read."""
    outcome = refused(lease.task)
    assert outcome is not None
    return await lease.fail(outcome.reason, outcome.message, permanent=outcome.permanent)


@pytest.mark.parametrize(
    ("name", "value"), [("holder", "x"), ("attempts", "many"), ("reclaims", "-1")]
)
async def test_a_damaged_task_is_reaped_if_the_move_can_run(
    harness: Harness, name: str, value: str
) -> None:
    broken, neighbour = await silent(harness), await silent(harness)
    await write(harness, broken, name, value)

    assert (await harness.reaper.tick()).retrying == 2

    task = await harness.task(neighbour.id)
    assert (task.state, task.damaged) == (State.RETRYING, ())


@pytest.mark.parametrize("damage", ["an entry that is none", "no entry", "no score"])
async def test_a_task_that_breaks_the_move_does_not_affect_others(
    connection: Connection,
    client: aredis.Redis,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = build(connection, client, archive="postgres")
    before = await silent(harness, max_attempts=1)
    broken = await harness.claimed(max_attempts=1)
    await harness.age(broken, SILENT)
    after = await silent(harness, max_attempts=1)
    if damage == "an entry that is none":
        await write(harness, broken, "entry", "x")
    else:
        await harness.client.hdel(harness.keys.task(broken.id.ulid), damage.removeprefix("no "))

    reaped = await harness.reaper.tick()

    assert (reaped.dead, reaped.stuck) == (2, 1)
    assert f"task {broken.id.ulid} cannot be reaped: ResponseError" in caplog.messages[-1]
    sent = {key for _, entry in await harness.client.xrange(harness.keys.outbox()) for key in entry}
    assert {before.id.ulid.encode(), after.id.ulid.encode()} <= sent
    await harness.queue.aclose()


async def test_a_skipped_task_does_not_affect_the_rest_of_the_page(harness: Harness) -> None:
    broken, neighbour = await silent(harness), await silent(harness)
    await harness.client.hset(harness.keys.failures(broken.id.ulid), "a", "b")

    assert (await harness.reaper.tick()).retrying == 1
    assert (await harness.task(neighbour.id)).state is State.RETRYING


async def test_pages_after_a_broken_one_are_reaped(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code")] * (PAGE + 5))
    leases = await harness.queue.claim(worker="w1", n=PAGE + 5)
    for lease in leases:
        await harness.age(lease, SILENT)
    for lease in leases[:3]:
        await write(harness, lease, "def0", "{")

    assert (await harness.reaper.tick()).ready == PAGE + 5
