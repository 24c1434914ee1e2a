"""Fallback to the archive: calls find a task in Redis or in the archive."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rqueue import Queue
from rqueue.errors import (
    ConfigError,
    DagNotFound,
    StoreUnavailable,
    TaskCancelled,
    TaskDead,
    TaskNotFound,
    WrongState,
)
from rqueue.task.forms import view
from rqueue.task.ids import new_dag_id, new_task_id
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.harness import Harness, opened
from tests.postgres import Database
from tests.servers import Server


async def test_a_queue_without_an_archive_connects_to_no_postgres(alone: Harness) -> None:
    assert alone.queue._internals.runtime.archive_reader is None
    with pytest.raises(TaskNotFound):
        await alone.queue.get(new_task_id())
    with pytest.raises(DagNotFound):
        await alone.queue.dags.show(new_dag_id())
    with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL"):
        await alone.queue.archive.count()


async def test_a_producer_without_the_archive_setting_connects_to_no_postgres(
    valkey: Server,
) -> None:
    async with opened(valkey, archive="postgres") as harness:
        with pytest.raises(TaskNotFound):
            await harness.queue.get(new_task_id())


async def test_an_unavailable_archive_is_not_reported_as_an_unknown_task(
    valkey: Server, own_pg: Database
) -> None:
    async with reader_harness(valkey, own_pg, call_timeout_sec=1) as env:
        task = await env.completed(result=7)
        await env.archive()
        live = await env.queue.enqueue("code")
        own_pg.stop()

        assert (await env.queue.get(task.id)).result == 7
        assert (await live.task()).id == live.id
        await env.forget()
        for name in (task.id, "mine"):
            with pytest.raises(StoreUnavailable):
                await env.queue.get(name)
        with pytest.raises(StoreUnavailable):
            await env.queue.archive.count()

        own_pg.start()
        assert (await env.queue.get(task.id)).result == 7


async def test_an_archive_without_tables_names_the_migrate_command(
    valkey: Server, bare_postgres: Database
) -> None:
    async with reader_harness(valkey, bare_postgres, migrated=False) as env:
        archive = env.queue.archive
        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await env.queue.get(new_task_id())
        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await archive.count()
        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await archive.spend()


async def test_an_archive_of_an_older_release_names_the_migrate_command(
    pg_env: ReaderHarness,
) -> None:
    pg_env.sql("DROP VIEW rqueue.spending")

    with pytest.raises(ConfigError, match="rqueue archive migrate"):
        await pg_env.queue.archive.spend()


async def test_a_role_without_rights_is_reported(valkey: Server, postgres: Database) -> None:
    async with reader_harness(valkey, postgres) as env:
        env.sql("CREATE ROLE visitor LOGIN")
        url = postgres.url.replace("://rqueue", "://visitor")
        assert url != postgres.url
        async with opened(valkey, postgres_url=url) as harness:
            with pytest.raises(ConfigError, match="role"):
                await harness.queue.get(new_task_id())
        env.sql("GRANT USAGE ON SCHEMA rqueue TO visitor")
        env.sql("GRANT SELECT ON ALL TABLES IN SCHEMA rqueue TO visitor")
        async with opened(valkey, postgres_url=url) as harness:
            assert await harness.queue.archive.count() == 0
            assert await harness.queue.archive.spend(("type", "day")) == []
        env.sql("DROP OWNED BY visitor")
        env.sql("DROP ROLE visitor")


async def test_a_result_is_found_in_redis_and_in_the_archive(env: ReaderHarness) -> None:
    task = await env.completed(result={"a": 1}, external_id="mine")
    dead = await env.dead()
    waiting = await env.queue.enqueue("code", delay=60)
    await waiting.cancel("no longer")
    await env.moved()

    queue: Queue = env.queue
    handle = type(waiting)
    assert await handle(task.id, True, queue._internals).result(timeout=5) == {"a": 1}
    assert await handle(task.id, True, queue._internals).status() == "COMPLETED"
    with pytest.raises(TaskDead, match="it broke"):
        await handle(dead.id, True, queue._internals).result(timeout=5)
    with pytest.raises(TaskCancelled, match="no longer"):
        await handle(waiting.id, True, queue._internals).result(timeout=5)
    assert await (await queue.handle("mine")).view("A") == view(task, "A")
    assert await (await queue.handle(task.id)).view("C") == view(task, "C")


@pytest.mark.parametrize(
    "change",
    [
        lambda queue, id: queue.set_priority(id, 1),
        lambda queue, id: queue.edit(id, {"a": 2}),
        lambda queue, id: queue.dead.retry(id),
        lambda queue, id: queue.reschedule(id, delay=1),
        lambda queue, id: queue.dead.discard(id),
    ],
)
async def test_a_task_that_is_only_in_the_archive_cannot_be_changed(
    pg_env: ReaderHarness, change: Any
) -> None:
    dead = await pg_env.dead()
    await pg_env.moved()
    before = pg_env.sql("SELECT * FROM rqueue.task_lives")

    with pytest.raises(TaskNotFound):
        await change(pg_env.queue, dead.id)

    assert pg_env.sql("SELECT * FROM rqueue.task_lives") == before
    assert not await pg_env.queue.cancel(dead.id)
    with pytest.raises(WrongState):
        await pg_env.queue.why(dead.id)


async def test_a_dag_that_has_left_redis_is_drawn_from_the_archive(env: ReaderHarness) -> None:
    queue = env.queue
    async with queue.dag("a diamond", budget_usd=5) as dag:
        end = dag.add(queue.call("code"), name="end", after=["left", "right"])
        dag.add(queue.call("code"), name="left", after=["top"])
        dag.add(queue.call("code"), name="right", after=["top"])
        dag.add(queue.call("code"), name="top")
    for _ in range(4):
        (lease,) = await queue.claim(worker="w1")
        await lease.start()
        await lease.complete()
    before = await queue.dags.show(dag.id)
    lone = await env.completed()
    await env.moved()

    found = await queue.dags.show(dag.id)
    assert found.dag == before.dag
    assert found.dag.status == "completed"
    assert {id: sorted(up) for id, up in found.dependencies.items()} == {
        id: sorted(up) for id, up in before.dependencies.items()
    }
    assert (await queue.dags.show(end.id)).dag == before.dag
    assert (await queue.dags.status(str(lone.id))).total == 1
    with pytest.raises(DagNotFound):
        await queue.dags.show(new_dag_id())


async def test_a_lost_connection_is_unavailable_and_the_next_call_works(
    pg_env: ReaderHarness,
) -> None:
    task = await pg_env.completed()
    await pg_env.moved()
    assert (await pg_env.queue.get(task.id)).id == task.id
    pg_env.database.drop_connections()

    try:
        await pg_env.queue.get(task.id)
    except StoreUnavailable as error:
        assert isinstance(error.__cause__, psycopg.Error)  # noqa: PT017 (either may happen)

    assert (await pg_env.queue.get(task.id)).id == task.id
