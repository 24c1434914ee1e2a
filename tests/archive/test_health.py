"""The facts about an archive that `rqueue doctor` reads."""

from __future__ import annotations

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.health import ArchiveFacts, read_health
from rqueue.core.outbox import oldest_ms
from tests.archive.archiver_harness import ArchiverHarness
from tests.archive.test_poison import announce
from tests.postgres import Database


async def test_a_healthy_archive_is_reported_with_its_quarantine(env: ArchiverHarness) -> None:
    await announce(env, b"no id", b"1 COMPLETED")
    await env.archiver.tick()

    found = await read_health(env.archive, "sales")

    assert (found.fault, found.missing, found.quarantined, found.conflicts) == (None, 0, 1, 0)
    assert found.version.startswith("PostgreSQL 1")


async def test_missing_tables_are_counted(bare_pg: Database) -> None:
    archive = Archive(lambda: bare_pg.url)

    found = await read_health(archive, "q")

    assert found.missing > 0
    await archive.aclose()


async def test_an_unavailable_archive_is_reported_without_an_error() -> None:
    archive = Archive(lambda: "postgresql:///x?host=/nowhere", timeout_sec=1)

    found = await read_health(archive, "q")

    assert found == ArchiveFacts("q", fault=found.fault)
    assert found.fault
    await archive.aclose()


async def test_the_age_of_the_outbox_is_that_of_its_first_entry(pg_env: ArchiverHarness) -> None:
    assert await oldest_ms(pg_env.harness.queue._internals.shard) is None
    await pg_env.harness.client.xadd(pg_env.harness.keys.outbox(), {"a": "b"}, id="5-0")
    await pg_env.completed()

    found = await oldest_ms(pg_env.harness.queue._internals.shard)

    assert found == pytest.approx(1_794_962_239_593, rel=0.5)
