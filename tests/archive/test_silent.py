"""A PostgreSQL that has fallen silent: its sockets are open, and nothing comes out of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Handle
from rqueue.archive.connection import Archive
from rqueue.archive.writer import Writer
from rqueue.errors import ResultTimeout, StoreUnavailable, TaskNotFound
from rqueue.task.ids import new_task_id
from tests.archive.library import library
from tests.postgres import Database
from tests.servers import Server

# Far beyond each limit that is set here, and far below those that are not.
SOON_SEC = 8


async def test_reads_say_so_in_time(valkey: Server, own_pg: Database) -> None:
    settings = {"call_timeout_sec": 1, "dedupe_archive": True, "dedupe_window_sec": 3600}
    async with library(valkey, own_pg, **settings) as shelf:
        queue, task = shelf.harness.queue, new_task_id()
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


async def test_who_is_asked_first_says_how_long_it_was_silent(own_pg: Database) -> None:
    archive = Archive(lambda: own_pg.url, timeout_sec=0.2)
    try:
        await ask(archive)

        with own_pg.frozen(), pytest.raises(StoreUnavailable, match=r"PostgreSQL within 0\.2 s"):
            await ask(archive)

        archive.timeout_sec = SOON_SEC
        await ask(archive)
    finally:
        await archive.aclose()


async def test_a_result_is_waited_for_no_longer_than_asked(
    valkey: Server, own_pg: Database
) -> None:
    async with library(valkey, own_pg, call_timeout_sec=60) as shelf:
        handle = Handle(new_task_id(), True, shelf.harness.queue._internals)
        with pytest.raises(TaskNotFound):
            await handle.result(timeout=30)

        with own_pg.frozen():
            began = asyncio.get_running_loop().time()
            with pytest.raises(ResultTimeout):
                await handle.result(timeout=0.2)
            took = asyncio.get_running_loop().time() - began

        assert took < SOON_SEC


@pytest.mark.parametrize("step", ["make_room", "insert_all", "keep_dags"])
async def test_silent_at_any_step_of_a_batch_it_loses_and_doubles_nothing(
    valkey: Server, own_pg: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with library(valkey, own_pg, work_sec=1.0) as shelf:
        await shelf.completed()
        await shelf.archiver.tick()
        for _ in range(20):
            await shelf.completed()
        done = getattr(Writer, step)

        async def then_silent(*given: Any) -> Any:
            answer = await done(*given)
            own_pg.cluster.freeze()
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(Writer, step, then_silent)
            try:
                with pytest.raises(StoreUnavailable, match="PostgreSQL within 1 s"):
                    await shelf.archiver.tick()
                assert await shelf.outbox() == 20
            finally:
                own_pg.cluster.thaw()

        while await shelf.outbox():
            await asyncio.gather(shelf.archiver.tick(), return_exceptions=True)
        assert (shelf.count(), shelf.count("conflicts"), shelf.count("quarantine")) == (21, 0, 0)


async def test_a_line_is_probed_as_its_url_says_or_as_we_do(pg: Database) -> None:
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
