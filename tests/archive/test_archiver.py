"""The archiver: commits rows, then deletes entries; each ended life becomes one row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.archive import archiver as module
from rqueue.archive.archiver import Archived
from rqueue.clock import SYSTEM
from rqueue.core import outbox
from rqueue.errors import LeaseLost, StoreUnavailable
from tests.archive.archiver_harness import ArchiverHarness, archiver_harness
from tests.lua.dag.dags import settled
from tests.postgres import Database
from tests.servers import Server


async def test_a_completed_task_becomes_a_row(env: ArchiverHarness) -> None:
    before = SYSTEM.now()
    task = await env.completed({"n": 1}, priority=20, tags=["a", "b:1"], max_attempts=5)

    done = await env.archiver.tick()

    assert done == Archived(tasks=1)
    ((*facts, created, finished),) = env.query(
        "SELECT id, life, queue, type, state, worker, priority, attempts, epoch, tags,"
        " spec->'max_attempts', output, created_at, finished_at FROM rqueue.task_lives"
    )
    assert facts == [
        task.uuid, 1, "sales", "code", "COMPLETED", "w1", 20.0, 0, 1, ["a", "b:1"], 5, {"n": 1},
    ]  # fmt: skip
    assert before.replace(microsecond=0) <= created <= finished
    assert await env.outbox() == 0


async def test_a_dead_task_has_rows_of_its_failed_attempts(env: ArchiverHarness) -> None:
    lease = await env.dead(idempotency_key="k", external_id="mine")

    await env.archiver.tick()

    ((state, error, reason, keys),) = env.query(
        "SELECT state, error, reason, idempotency_sha IS NOT NULL AND external_sha IS NOT NULL"
        " FROM rqueue.task_lives"
    )
    assert (state, error, reason, keys) == ("DEAD_LETTERED", "boom", "error", True)
    assert env.query("SELECT task_id, epoch, attempt, agent, error FROM rqueue.failed_attempts") \
        == [(lease.id.uuid, 1, 1, "w1", "boom")]  # fmt: skip
    assert (await env.harness.task(lease.id)).state is State.DEAD_LETTERED


async def test_a_cancelled_task_has_its_reason(env: ArchiverHarness) -> None:
    handle = await env.harness.queue.enqueue("code")
    await handle.cancel("no need\nat all")

    await env.archiver.tick()

    assert env.query("SELECT state, cancel_reason, worker FROM rqueue.task_lives") == [
        ("CANCELLED", "no need\nat all", None)
    ]


async def test_each_life_is_a_row(pg_env: ArchiverHarness) -> None:
    lease = await pg_env.dead()
    await pg_env.archiver.tick()
    await pg_env.harness.queue.dead.retry(lease.id)
    (again,) = await pg_env.harness.queue.claim(worker="w2")
    await again.start()
    await again.complete("at last")

    await pg_env.archiver.tick()

    assert pg_env.query("SELECT life, state, worker FROM rqueue.task_lives ORDER BY life") == [
        (1, "DEAD_LETTERED", "w1"),
        (2, "COMPLETED", "w2"),
    ]
    assert pg_env.count("failed_attempts") == 1


async def test_a_task_that_is_retried_before_it_is_archived_loses_no_life(
    pg_env: ArchiverHarness,
) -> None:
    lease = await pg_env.dead()
    await pg_env.harness.queue.dead.edit(lease.id, {"changed": True})

    await pg_env.archiver.tick()

    assert pg_env.query("SELECT life, state, spec ? 'p' FROM rqueue.task_lives") == [
        (1, "DEAD_LETTERED", False)
    ]


@pytest.mark.parametrize("together", [True, False])
async def test_a_discarded_task_stays_one_row(pg_env: ArchiverHarness, together: bool) -> None:
    lease = await pg_env.dead()
    if not together:
        await pg_env.archiver.tick()
    await pg_env.harness.queue.dead.discard(lease.id, "hopeless")

    done = await pg_env.archiver.tick()

    assert (done.conflicts, done.quarantined) == (0, 0)
    assert pg_env.query(
        "SELECT life, state, cancel_reason, discarded_at IS NOT NULL FROM rqueue.task_lives"
    ) == [(1, "CANCELLED", "hopeless", True)]


async def test_dags_are_archived_with_their_tasks(pg_env: ArchiverHarness) -> None:
    async with pg_env.harness.queue.dag("an order", budget_usd=2.5) as dag:
        first = dag.add(pg_env.harness.queue.call("code"))
        dag.add(pg_env.harness.queue.call("code"), after=[first])
    for _ in range(2):
        (lease,) = await pg_env.harness.queue.claim(worker="w1")
        await lease.start()
        await lease.complete()
        await pg_env.archiver.tick()

    assert pg_env.query(
        "SELECT id, title, status, tasks, budget_micro_usd, finished_at IS NOT NULL"
        " FROM rqueue.dags"
    ) == [(dag.id.uuid, "an order", "completed", 2, 2_500_000, True)]
    assert pg_env.query("SELECT DISTINCT dag_id FROM rqueue.task_lives") == [(dag.id.uuid,)]


@pytest.mark.parametrize("swept", [True, False])
async def test_a_dag_that_ends_while_its_row_is_written_stays_until_it_is_written_again(
    pg_env: ArchiverHarness, swept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = pg_env.harness
    async with harness.queue.dag("an order") as dag:
        first = dag.add(harness.queue.call("code"))
        dag.add(harness.queue.call("code"), after=[first])
    tasks = [await ended_next(pg_env)]
    key = harness.keys.dag(dag.id.ulid)

    async def read_dags(*arguments: Any) -> Any:
        found = await outbox.read_dags(*arguments)
        tasks.append(await ended_next(pg_env))
        if swept:
            await settled(harness)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_dags", read_dags)
        patch.setattr(module, "collect", once(outbox.collect))
        await pg_env.archiver.tick()
    await settled(harness)

    assert pg_env.query("SELECT status FROM rqueue.dags") == [("running",)]
    assert await harness.client.pttl(key) == -1
    await pg_env.archiver.tick()
    await settled(harness)
    assert pg_env.query("SELECT status, finished_at IS NOT NULL FROM rqueue.dags") == [
        ("completed", True)
    ]
    assert await harness.client.pttl(key) > 0
    assert len(tasks) == 2
    for task in tasks:
        assert await harness.client.pttl(harness.keys.task(task.ulid)) > 0


async def test_an_ended_dag_is_deleted_even_if_its_last_task_is_quarantined(
    pg_env: ArchiverHarness,
) -> None:
    harness = pg_env.harness
    async with harness.queue.dag("an order") as dag:
        dag.add(harness.queue.call("code"))
    task = await ended_next(pg_env)
    await harness.client.hset(harness.keys.task(task.ulid), "finished", "soon")

    await pg_env.archiver.tick()
    await settled(harness)

    assert pg_env.query("SELECT status FROM rqueue.dags") == [("completed",)]
    assert pg_env.count("quarantine") == 1
    assert await harness.client.pttl(harness.keys.dag(dag.id.ulid)) > 0


async def ended_next(pg_env: ArchiverHarness) -> TaskId:
    """Completes the next ready task."""
    (lease,) = await pg_env.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    return lease.id


def once(collect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A `collect` that returns entries once."""
    given: list[Any] = []

    async def first(*arguments: Any, **options: Any) -> Any:
        found = [] if given else await collect(*arguments, **options)
        given.extend(found)
        return found

    return first


async def test_a_crash_between_commit_and_delete_duplicates_nothing(
    pg_env: ArchiverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pg_env.completed()

    async def killed(*_: Any) -> int:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(module, "archived", killed)
        with pytest.raises(ConnectionResetError):
            await pg_env.archiver.tick()
    assert (pg_env.count(), await pg_env.outbox()) == (1, 1)
    later = pg_env.another()
    assert await later.tick() == Archived()

    done = await pg_env.archiver.tick()

    assert done == Archived(tasks=1, repeated=1)
    assert (pg_env.count(), pg_env.count("conflicts"), await pg_env.outbox()) == (1, 0, 0)


async def test_several_archivers_duplicate_nothing(pg_env: ArchiverHarness) -> None:
    for _ in range(40):
        await pg_env.completed()
    crew = [pg_env.archiver, *(pg_env.another(f"b{n}") for n in range(4))]

    done = await asyncio.gather(*(each.tick() for each in crew))

    assert sum(each.tasks for each in done) == 40
    assert (pg_env.count(), pg_env.count("conflicts"), await pg_env.outbox()) == (40, 0, 0)


async def test_entries_wait_while_postgres_is_unavailable(valkey: Server, own_pg: Database) -> None:
    async with archiver_harness(valkey, own_pg) as pg_env:
        await pg_env.completed()
        await pg_env.archiver.tick()
        own_pg.stop()
        for _ in range(3):
            await pg_env.completed()

        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await pg_env.archiver.tick()
        assert await pg_env.outbox() == 3
        own_pg.start()

        assert (await pg_env.archiver.tick()).tasks == 3
        assert (pg_env.count(), await pg_env.outbox()) == (4, 0)


async def test_a_killed_postgres_loses_and_duplicates_nothing(
    valkey: Server, own_pg: Database
) -> None:
    async with archiver_harness(valkey, own_pg) as pg_env:
        for _ in range(20):
            await pg_env.completed()
        ticking = asyncio.create_task(pg_env.archiver.tick())
        await asyncio.sleep(0)
        own_pg.kill()
        await asyncio.gather(ticking, return_exceptions=True)
        own_pg.start()

        while await pg_env.outbox():
            await asyncio.gather(pg_env.archiver.tick(), return_exceptions=True)

        assert (pg_env.count(), pg_env.count("conflicts")) == (20, 0)


async def test_entries_wait_while_postgres_is_read_only(valkey: Server, own_pg: Database) -> None:
    async with archiver_harness(valkey, own_pg) as pg_env:
        await pg_env.completed()
        own_pg.set_read_only(True)
        own_pg.drop_connections()

        with pytest.raises(StoreUnavailable):
            await pg_env.archiver.tick()
        assert await pg_env.outbox() == 1
        own_pg.set_read_only(False)
        own_pg.drop_connections()

        assert (await pg_env.archiver.tick()).tasks == 1
        assert pg_env.count("quarantine") == 0


async def test_entries_wait_while_the_disk_is_full(
    valkey: Server, full_pg: tuple[Database, Any]
) -> None:
    database, disk = full_pg
    async with archiver_harness(valkey, database) as pg_env:
        for _ in range(50):
            await pg_env.completed("x" * 20_000)
        disk.fill()

        with pytest.raises(StoreUnavailable):
            await pg_env.archiver.tick()
        assert await pg_env.outbox() == 50
        disk.free()

        while await pg_env.outbox():
            await asyncio.gather(pg_env.archiver.tick(), return_exceptions=True)
        assert (pg_env.count(), pg_env.count("quarantine")) == (50, 0)


async def test_a_cost_reported_after_a_lost_lease_is_archived(
    pg_env: ArchiverHarness,
) -> None:
    lease = await pg_env.harness.running()
    await pg_env.harness.queue.cancel(lease.id, "enough")
    await pg_env.archiver.tick()
    assert pg_env.query("SELECT cost_micro_usd FROM rqueue.life_costs") == [(0,)]

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await lease.spend(0.25, tokens_out=7)

    done = await pg_env.archiver.tick()
    assert (done.tasks, done.conflicts, done.quarantined) == (1, 0, 0)
    assert pg_env.query("SELECT life, cost_micro_usd, tokens_output FROM rqueue.life_costs") == [
        (1, 250_000, 7)
    ]
