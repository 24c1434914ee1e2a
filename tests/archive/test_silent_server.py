"""A PostgreSQL server that accepts connections and does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Handle
from rqueue.archive.connection import Archive
from rqueue.archive.writer import Writer
from rqueue.errors import ResultTimeout, StoreUnavailable, TaskNotFound
from rqueue.task.ids import new_task_id
from tests.archive.archiver_harness import archiver_harness
from tests.postgres import Database
from tests.servers import Server

# Far above each timeout set here, and far below the default ones.
SOON_SEC = 8


async def test_reads_fail_within_their_timeout(valkey: Server, own_pg: Database) -> None:
    settings = {"call_timeout_sec": 1, "dedupe_archive": True, "dedupe_window_sec": 3600}
    async with archiver_harness(valkey, own_pg, **settings) as pg_env:
        queue, task = pg_env.harness.queue, new_task_id()
        with pytest.raises(TaskNotFound):
            await queue.get(task)

        with own_pg.frozen():
            began = asyncio.get_running_loop().time()
            for call in (
                lambda: queue.get(task),
                lambda: queue.enqueue("code", idempotency_key="k"),
            ):
                with pytest.raises(StoreUnavailable, match="PostgreSQL"):
                    await call()
            took = asyncio.get_running_loop().time() - began

        assert took < SOON_SEC
        with pytest.raises(TaskNotFound):
            await queue.get(task)


async def test_the_error_contains_the_timeout(own_pg: Database) -> None:
    archive = Archive(lambda: own_pg.url, timeout_sec=0.2)
    try:
        await ask(archive)

        with own_pg.frozen(), pytest.raises(StoreUnavailable, match=r"PostgreSQL within 0\.2 s"):
            await ask(archive)

        archive.timeout_sec = SOON_SEC
        await ask(archive)
    finally:
        await archive.aclose()


async def test_waiting_for_a_result_ends_at_its_timeout(valkey: Server, own_pg: Database) -> None:
    async with archiver_harness(valkey, own_pg, call_timeout_sec=60) as pg_env:
        handle = Handle(new_task_id(), True, pg_env.harness.queue._internals)
        with pytest.raises(TaskNotFound):
            await handle.result(timeout=30)

        with own_pg.frozen():
            began = asyncio.get_running_loop().time()
            with pytest.raises(ResultTimeout):
                await handle.result(timeout=0.2)
            took = asyncio.get_running_loop().time() - began

        assert took < SOON_SEC


@pytest.mark.parametrize("step", ["make_partitions", "insert_all", "write_dags"])
async def test_a_silent_server_at_any_step_loses_and_duplicates_nothing(
    valkey: Server, own_pg: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with archiver_harness(valkey, own_pg, work_sec=1.0) as pg_env:
        await pg_env.completed()
        await pg_env.archiver.tick()
        for _ in range(20):
            await pg_env.completed()
        done = getattr(Writer, step)

        async def then_silent(*given: Any) -> Any:
            answer = await done(*given)
            own_pg.cluster.freeze()
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(Writer, step, then_silent)
            try:
                with pytest.raises(StoreUnavailable, match="PostgreSQL within 1 s"):
                    await pg_env.archiver.tick()
                assert await pg_env.outbox() == 20
            finally:
                own_pg.cluster.thaw()

        while await pg_env.outbox():
            await asyncio.gather(pg_env.archiver.tick(), return_exceptions=True)
        assert (pg_env.count(), pg_env.count("conflicts"), pg_env.count("quarantine")) == (21, 0, 0)


async def test_tcp_probes_follow_the_url_or_the_defaults(pg: Database) -> None:
    archive = Archive(lambda: f"{pg.url}&keepalives_idle=77")
    try:
        async with archive.connection() as connection:
            given = connection.info.get_parameters()
    finally:
        await archive.aclose()

    probes = ("keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
    assert [given[name] for name in probes] == ["77", "5", "3", "30000"]


async def ask(archive: Archive) -> None:
    async with archive.connection() as connection:
        await connection.execute("SELECT 1")
