"""`rqueue archiver` as a process, apart from the scheduler: all that an archive needs, and seen."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.archive.archived_harness import ArchivedHarness, housed
from tests.harness import NAME
from tests.integration.programs import program
from tests.integration.test_observed import scrape
from tests.postgres import Database
from tests.queue.until import until
from tests.servers import Server

WORDS = ("archiver", "--metrics-port", "0", "--health-port", "0")


@pytest.fixture
async def home(
    valkey: Server, pg: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ArchivedHarness]:
    """A queue whose archiver is a process, by its environment."""
    monkeypatch.setenv("RQUEUE_QUEUE", NAME)
    monkeypatch.setenv("RQUEUE_POSTGRES_URL", pg.url)
    async with housed(valkey, pg) as found:
        yield found


async def probed(address: str) -> tuple[int, dict[str, Any]]:
    """The answer of its probe."""

    def get() -> tuple[int, dict[str, Any]]:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as answer:
            return answer.status, json.loads(answer.read())

    return await asyncio.to_thread(get)


async def test_what_it_does_is_scraped_and_its_health_probed(
    home: ArchivedHarness, valkey: Server, tmp_path: Path
) -> None:
    await home.ended()
    with program(valkey.url, tmp_path, *WORDS) as running:
        (listening,) = await running.said("listening")

        async def archived() -> bool:
            await asyncio.sleep(0.05)
            found = await scrape(listening["address"])
            worked = found.get(("rqueue_service_work_total", f"{NAME},archiver,tasks")) == 1
            return worked and found["rqueue_outbox_entries", NAME] == 0

        await until(archived)
        found = await scrape(listening["address"])
        status, health = await probed(listening["address"])
        code = running.end()

    assert found["rqueue_service_faults_total", f"{NAME},archiver"] == 0
    assert (status, health["ready"], health["server"]) == (200, True, True)
    assert code == 0


async def test_it_records_and_prunes_where_the_scheduler_does_not_know_the_archive(
    home: ArchivedHarness, valkey: Server, tmp_path: Path
) -> None:
    settings = f"queues:\n  {NAME}:\n    retention: {{completed_days: 8}}\n"
    (tmp_path / "rqueue.yaml").write_text(settings)
    await home.ended()
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.task_lives SET finished_at = now() - interval '9 days'")
    lease = await home.harness.running()
    await lease.complete()
    with program(valkey.url, tmp_path, *WORDS) as running:

        async def kept() -> bool:
            await asyncio.sleep(0.05)
            days = await home.queue.archive.metrics()
            lives = {task for task, _ in home.kept.lives()}
            return bool(days) and lives == {lease.id}

        await until(kept)
        code = running.end()

    assert code == 0
    assert not [line for line in running.lines() if line["level"] == "error"]
