"""Artifacts that only the archive still names are not swept; large results come back from it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rqueue.artifacts import admin
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.task.ids import new_task_id
from rqueue.testing.clock import ManualClock
from tests.archive.library import Library, library
from tests.harness import opened
from tests.postgres import Database
from tests.servers import Server

LARGE = "x" * 400_000


async def forgotten(shelf: Library) -> str:
    """A task with a large result, archived, of which Redis knows nothing any more."""
    lease = await shelf.harness.running()
    await lease.complete(LARGE)
    await shelf.archiver.tick()
    await shelf.harness.client.flushall()
    shelf.harness.queue._internals.clock = ManualClock(SYSTEM.now() + timedelta(days=40))
    return lease.id


async def test_a_large_result_comes_back_from_the_archive_and_is_not_swept(
    valkey: Server, pg: Database, tmp_path: Path
) -> None:
    async with library(valkey, pg, artifacts_url=f"file://{tmp_path}/kept") as shelf:
        task = await forgotten(shelf)

        assert (await shelf.harness.queue.artifacts.sweep()).found == []

        assert (await shelf.harness.queue.get(task)).result == LARGE
        shelf.ask("DELETE FROM rqueue.task_lives")
        assert len((await shelf.harness.queue.artifacts.sweep()).found) == 1


async def test_a_sweep_gets_past_what_the_archive_names(
    valkey: Server, pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MOST", 1)
    async with library(valkey, pg, artifacts_url=f"file://{tmp_path}/kept") as shelf:
        task = await forgotten(shelf)
        orphan = await shelf.harness.queue._internals.runtime.shelf.put(b"abc", task=new_task_id())

        swept = await shelf.harness.queue.artifacts.sweep()

        assert (swept.found, swept.more) == ([orphan.id], False)
        assert (await shelf.harness.queue.get(task)).result == LARGE


async def test_nothing_is_swept_while_the_archive_cannot_say(
    valkey: Server, own_pg: Database, tmp_path: Path
) -> None:
    async with library(valkey, own_pg, artifacts_url=f"file://{tmp_path}/kept") as shelf:
        task = await forgotten(shelf)
        own_pg.stop()

        with pytest.raises(StoreUnavailable):
            await shelf.harness.queue.artifacts.sweep()

        own_pg.start()
        assert (await shelf.harness.queue.get(task)).result == LARGE


@pytest.mark.parametrize("archive", ["postgres", "none"])
async def test_who_does_not_know_where_the_archive_is_sweeps_nothing(
    valkey: Server, pg: Database, tmp_path: Path, archive: str
) -> None:
    place = f"file://{tmp_path}/kept"
    async with (
        library(valkey, pg, artifacts_url=place) as shelf,
        opened(valkey, archive=archive, artifacts_url=place) as other,
    ):
        task = await forgotten(shelf)
        other.queue._internals.clock = shelf.harness.queue._internals.clock
        await shelf.another().tick()

        for dry_run in (True, False):
            with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL") as raised:
                await other.queue.artifacts.sweep(dry_run=dry_run)
            assert raised.value.setting == "postgres_url"

        assert (await shelf.harness.queue.get(task)).result == LARGE


async def test_a_queue_without_an_archive_is_swept_by_what_redis_names(
    valkey: Server, tmp_path: Path
) -> None:
    async with opened(valkey, artifacts_url=f"file://{tmp_path}/kept") as harness:
        lease = await harness.running()
        await lease.complete(LARGE)
        await harness.client.flushall()
        harness.queue._internals.clock = ManualClock(SYSTEM.now() + timedelta(days=40))

        assert (await harness.queue.artifacts.sweep()).deleted == 1
