"""Artifacts that only the archive refers to are not swept; large results are read from it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rqueue.artifacts import admin
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.task.ids import new_task_id
from rqueue.testing.timeline import ManualClock
from tests.archive.archiver_harness import ArchiverHarness, archiver_harness
from tests.harness import opened
from tests.postgres import Database
from tests.servers import Server

LARGE = "x" * 400_000


async def forgotten(pg_env: ArchiverHarness) -> str:
    """Archives a task with a large result and deletes it in Redis."""
    lease = await pg_env.harness.running()
    await lease.complete(LARGE)
    await pg_env.archiver.tick()
    await pg_env.harness.client.flushall()
    pg_env.harness.queue._internals.clock = ManualClock(SYSTEM.now() + timedelta(days=40))
    return lease.id


async def test_a_large_result_comes_back_from_the_archive_and_is_not_swept(
    valkey: Server, pg: Database, tmp_path: Path
) -> None:
    async with archiver_harness(valkey, pg, artifacts_url=f"file://{tmp_path}/kept") as pg_env:
        task = await forgotten(pg_env)

        assert (await pg_env.harness.queue.artifacts.sweep()).found == []

        assert (await pg_env.harness.queue.get(task)).result == LARGE
        pg_env.query("DELETE FROM rqueue.task_lives")
        assert len((await pg_env.harness.queue.artifacts.sweep()).found) == 1


async def test_a_sweep_continues_after_artifacts_that_the_archive_refers_to(
    valkey: Server, pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MOST", 1)
    async with archiver_harness(valkey, pg, artifacts_url=f"file://{tmp_path}/kept") as pg_env:
        task = await forgotten(pg_env)
        orphan = await pg_env.harness.queue._internals.runtime.shelf.put(b"abc", task=new_task_id())

        swept = await pg_env.harness.queue.artifacts.sweep()

        assert (swept.found, swept.more) == ([orphan.id], False)
        assert (await pg_env.harness.queue.get(task)).result == LARGE


async def test_nothing_is_swept_while_the_archive_is_unavailable(
    valkey: Server, own_pg: Database, tmp_path: Path
) -> None:
    async with archiver_harness(valkey, own_pg, artifacts_url=f"file://{tmp_path}/kept") as pg_env:
        task = await forgotten(pg_env)
        own_pg.stop()

        with pytest.raises(StoreUnavailable):
            await pg_env.harness.queue.artifacts.sweep()

        own_pg.start()
        assert (await pg_env.harness.queue.get(task)).result == LARGE


@pytest.mark.parametrize("archive", ["postgres", "none"])
async def test_without_the_archive_setting_nothing_is_swept(
    valkey: Server, pg: Database, tmp_path: Path, archive: str
) -> None:
    place = f"file://{tmp_path}/kept"
    async with (
        archiver_harness(valkey, pg, artifacts_url=place) as pg_env,
        opened(valkey, archive=archive, artifacts_url=place) as other,
    ):
        task = await forgotten(pg_env)
        other.queue._internals.clock = pg_env.harness.queue._internals.clock
        await pg_env.another().tick()

        for dry_run in (True, False):
            with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL") as raised:
                await other.queue.artifacts.sweep(dry_run=dry_run)
            assert raised.value.setting == "postgres_url"

        assert (await pg_env.harness.queue.get(task)).result == LARGE


async def test_a_queue_without_an_archive_is_swept_by_references_in_redis(
    valkey: Server, tmp_path: Path
) -> None:
    async with opened(valkey, artifacts_url=f"file://{tmp_path}/kept") as harness:
        lease = await harness.running()
        await lease.complete(LARGE)
        await harness.client.flushall()
        harness.queue._internals.clock = ManualClock(SYSTEM.now() + timedelta(days=40))

        assert (await harness.queue.artifacts.sweep()).deleted == 1
