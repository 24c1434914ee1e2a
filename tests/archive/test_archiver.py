"""The archiver: row committed, then the entry goes; whatever ends is kept, once."""

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
from tests.archive.library import Library, library
from tests.lua.dag.planted import settled
from tests.postgres import Database
from tests.servers import Server


async def test_what_completes_is_a_row(shelves: Library) -> None:
    before = SYSTEM.now()
    task = await shelves.completed({"n": 1}, priority=20, tags=["a", "b:1"], max_attempts=5)

    done = await shelves.archiver.tick()

    assert done == Archived(tasks=1)
    ((*facts, created, finished),) = shelves.ask(
        "SELECT id, life, queue, type, state, worker, priority, attempts, epoch, tags,"
        " spec->'max_attempts', output, created_at, finished_at FROM rqueue.task_lives"
    )
    assert facts == [
        task.uuid, 1, "house", "code", "COMPLETED", "w1", 20.0, 0, 1, ["a", "b:1"], 5, {"n": 1},
    ]  # fmt: skip
    assert before.replace(microsecond=0) <= created <= finished
    assert await shelves.outbox() == 0


async def test_what_died_has_its_attempts(shelves: Library) -> None:
    lease = await shelves.dead(idempotency_key="k", external_id="mine")

    await shelves.archiver.tick()

    ((state, error, reason, keys),) = shelves.ask(
        "SELECT state, error, reason, idempotency_sha IS NOT NULL AND external_sha IS NOT NULL"
        " FROM rqueue.task_lives"
    )
    assert (state, error, reason, keys) == ("DEAD_LETTERED", "boom", "error", True)
    assert shelves.ask("SELECT task_id, epoch, attempt, agent, error FROM rqueue.failed_attempts") \
        == [(lease.id.uuid, 1, 1, "w1", "boom")]  # fmt: skip
    assert (await shelves.harness.task(lease.id)).state is State.DEAD_LETTERED


async def test_what_was_cancelled_says_why(shelves: Library) -> None:
    handle = await shelves.harness.queue.enqueue("code")
    await handle.cancel("no need\nat all")

    await shelves.archiver.tick()

    assert shelves.ask("SELECT state, cancel_reason, worker FROM rqueue.task_lives") == [
        ("CANCELLED", "no need\nat all", None)
    ]


async def test_each_life_is_a_row(shelf: Library) -> None:
    lease = await shelf.dead()
    await shelf.archiver.tick()
    await shelf.harness.queue.dead.retry(lease.id)
    (again,) = await shelf.harness.queue.claim(worker="w2")
    await again.start()
    await again.complete("at last")

    await shelf.archiver.tick()

    assert shelf.ask("SELECT life, state, worker FROM rqueue.task_lives ORDER BY life") == [
        (1, "DEAD_LETTERED", "w1"),
        (2, "COMPLETED", "w2"),
    ]
    assert shelf.count("failed_attempts") == 1


async def test_one_that_lives_again_before_the_archive_looks_loses_no_life(shelf: Library) -> None:
    lease = await shelf.dead()
    await shelf.harness.queue.dead.edit(lease.id, {"changed": True})

    await shelf.archiver.tick()

    assert shelf.ask("SELECT life, state, spec ? 'p' FROM rqueue.task_lives") == [
        (1, "DEAD_LETTERED", False)
    ]


@pytest.mark.parametrize("together", [True, False])
async def test_a_discarded_task_stays_one_row(shelf: Library, together: bool) -> None:
    lease = await shelf.dead()
    if not together:
        await shelf.archiver.tick()
    await shelf.harness.queue.dead.discard(lease.id, "hopeless")

    done = await shelf.archiver.tick()

    assert (done.conflicts, done.quarantined) == (0, 0)
    assert shelf.ask(
        "SELECT life, state, cancel_reason, discarded_at IS NOT NULL FROM rqueue.task_lives"
    ) == [(1, "CANCELLED", "hopeless", True)]


async def test_dags_are_kept_with_their_tasks(shelf: Library) -> None:
    async with shelf.harness.queue.dag("an order", budget_usd=2.5) as dag:
        first = dag.add(shelf.harness.queue.call("code"))
        dag.add(shelf.harness.queue.call("code"), after=[first])
    for _ in range(2):
        (lease,) = await shelf.harness.queue.claim(worker="w1")
        await lease.start()
        await lease.complete()
        await shelf.archiver.tick()

    assert shelf.ask(
        "SELECT id, title, status, tasks, budget_micro_usd, finished_at IS NOT NULL"
        " FROM rqueue.dags"
    ) == [(dag.id.uuid, "an order", "completed", 2, 2_500_000, True)]
    assert shelf.ask("SELECT DISTINCT dag_id FROM rqueue.task_lives") == [(dag.id.uuid,)]


@pytest.mark.parametrize("swept", [True, False])
async def test_a_dag_that_ends_while_its_facts_are_written_is_kept_until_they_are_read_again(
    shelf: Library, swept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = shelf.harness
    async with harness.queue.dag("an order") as dag:
        first = dag.add(harness.queue.call("code"))
        dag.add(harness.queue.call("code"), after=[first])
    tasks = [await ended_next(shelf)]
    key = harness.keys.dag(dag.id.ulid)

    async def read_dags(*asked: Any) -> Any:
        found = await outbox.read_dags(*asked)
        tasks.append(await ended_next(shelf))
        if swept:
            await settled(harness)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_dags", read_dags)
        patch.setattr(module, "collect", once(outbox.collect))
        await shelf.archiver.tick()
    await settled(harness)

    assert shelf.ask("SELECT status FROM rqueue.dags") == [("running",)]
    assert await harness.client.pttl(key) == -1
    await shelf.archiver.tick()
    await settled(harness)
    assert shelf.ask("SELECT status, finished_at IS NOT NULL FROM rqueue.dags") == [
        ("completed", True)
    ]
    assert await harness.client.pttl(key) > 0
    assert len(tasks) == 2
    for task in tasks:
        assert await harness.client.pttl(harness.keys.task(task.ulid)) > 0


async def test_a_dag_goes_though_its_last_task_can_be_no_row(shelf: Library) -> None:
    harness = shelf.harness
    async with harness.queue.dag("an order") as dag:
        dag.add(harness.queue.call("code"))
    task = await ended_next(shelf)
    await harness.client.hset(harness.keys.task(task.ulid), "finished", "soon")

    await shelf.archiver.tick()
    await settled(harness)

    assert shelf.ask("SELECT status FROM rqueue.dags") == [("completed",)]
    assert shelf.count("quarantine") == 1
    assert await harness.client.pttl(harness.keys.dag(dag.id.ulid)) > 0


async def ended_next(shelf: Library) -> TaskId:
    """The next task that is ready, which has completed."""
    (lease,) = await shelf.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    return lease.id


def once(collect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """What gives an archiver its entries, and after the first of them none."""
    given: list[Any] = []

    async def first(*asked: Any, **how: Any) -> Any:
        found = [] if given else await collect(*asked, **how)
        given.extend(found)
        return found

    return first


async def test_killed_between_commit_and_delete_it_doubles_nothing(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelf.completed()

    async def killed(*_: Any) -> int:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(module, "archived", killed)
        with pytest.raises(ConnectionResetError):
            await shelf.archiver.tick()
    assert (shelf.count(), await shelf.outbox()) == (1, 1)
    later = shelf.another()
    assert await later.tick() == Archived()

    done = await shelf.archiver.tick()

    assert done == Archived(tasks=1, repeated=1)
    assert (shelf.count(), shelf.count("conflicts"), await shelf.outbox()) == (1, 0, 0)


async def test_several_archivers_double_nothing(shelf: Library) -> None:
    for _ in range(40):
        await shelf.completed()
    crew = [shelf.archiver, *(shelf.another(f"b{n}") for n in range(4))]

    done = await asyncio.gather(*(each.tick() for each in crew))

    assert sum(each.tasks for each in done) == 40
    assert (shelf.count(), shelf.count("conflicts"), await shelf.outbox()) == (40, 0, 0)


async def test_postgres_away_the_outbox_waits_and_is_caught_up(
    valkey: Server, own_pg: Database
) -> None:
    async with library(valkey, own_pg) as shelf:
        await shelf.completed()
        await shelf.archiver.tick()
        own_pg.stop()
        for _ in range(3):
            await shelf.completed()

        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await shelf.archiver.tick()
        assert await shelf.outbox() == 3
        own_pg.start()

        assert (await shelf.archiver.tick()).tasks == 3
        assert (shelf.count(), await shelf.outbox()) == (4, 0)


async def test_killed_under_it_postgres_loses_and_doubles_nothing(
    valkey: Server, own_pg: Database
) -> None:
    async with library(valkey, own_pg) as shelf:
        for _ in range(20):
            await shelf.completed()
        ticking = asyncio.create_task(shelf.archiver.tick())
        await asyncio.sleep(0)
        own_pg.kill()
        await asyncio.gather(ticking, return_exceptions=True)
        own_pg.start()

        while await shelf.outbox():
            await asyncio.gather(shelf.archiver.tick(), return_exceptions=True)

        assert (shelf.count(), shelf.count("conflicts")) == (20, 0)


async def test_a_read_only_postgres_is_waited_for(valkey: Server, own_pg: Database) -> None:
    async with library(valkey, own_pg) as shelf:
        await shelf.completed()
        own_pg.set_read_only(True)
        own_pg.drop_connections()

        with pytest.raises(StoreUnavailable):
            await shelf.archiver.tick()
        assert await shelf.outbox() == 1
        own_pg.set_read_only(False)
        own_pg.drop_connections()

        assert (await shelf.archiver.tick()).tasks == 1
        assert shelf.count("quarantine") == 0


async def test_a_full_disk_is_waited_for(valkey: Server, full_pg: tuple[Database, Any]) -> None:
    database, disk = full_pg
    async with library(valkey, database) as shelf:
        for _ in range(50):
            await shelf.completed("x" * 20_000)
        disk.fill()

        with pytest.raises(StoreUnavailable):
            await shelf.archiver.tick()
        assert await shelf.outbox() == 50
        disk.free()

        while await shelf.outbox():
            await asyncio.gather(shelf.archiver.tick(), return_exceptions=True)
        assert (shelf.count(), shelf.count("quarantine")) == (50, 0)


async def test_a_cost_that_a_lost_run_tells_late_reaches_the_archive(shelf: Library) -> None:
    lease = await shelf.harness.running()
    await shelf.harness.queue.cancel(lease.id, "enough")
    await shelf.archiver.tick()
    assert shelf.ask("SELECT cost_micro_usd FROM rqueue.life_costs") == [(0,)]

    for _ in range(2):
        with pytest.raises(LeaseLost):
            await lease.spend(0.25, tokens_out=7)

    done = await shelf.archiver.tick()
    assert (done.tasks, done.conflicts, done.quarantined) == (1, 0, 0)
    assert shelf.ask("SELECT life, cost_micro_usd, tokens_output FROM rqueue.life_costs") == [
        (1, 250_000, 7)
    ]
