"""`rqueue archiver` as a process apart from the scheduler."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.harness import NAME
from tests.integration.programs import program
from tests.integration.test_observability import scrape
from tests.postgres import Database
from tests.queue.until import until
from tests.servers import Server

WORDS = ("archiver", "--metrics-port", "0", "--health-port", "0")


@pytest.fixture
async def env(
    valkey: Server, pg: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ArchivedHarness]:
    """A queue whose archiver is a process, configured by its environment."""
    monkeypatch.setenv("RQUEUE_QUEUE", NAME)
    monkeypatch.setenv("RQUEUE_POSTGRES_URL", pg.url)
    async with archived_harness(valkey, pg) as found:
        yield found


async def probed(address: str) -> tuple[int, dict[str, Any]]:
    """The reply of its probe."""

    def get() -> tuple[int, dict[str, Any]]:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as answer:
            return answer.status, json.loads(answer.read())

    return await asyncio.to_thread(get)


async def test_an_archiver_process_has_metrics_and_probes(
    env: ArchivedHarness, valkey: Server, tmp_path: Path
) -> None:
    await env.ended()
    with program(valkey.url, tmp_path, *WORDS) as running:
        (listening,) = await running.wait_for("listening")

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


async def test_an_archiver_archives_and_prunes_without_an_archive_at_the_scheduler(
    env: ArchivedHarness, valkey: Server, tmp_path: Path
) -> None:
    settings = f"queues:\n  {NAME}:\n    retention: {{completed_days: 8}}\n"
    (tmp_path / "rqueue.yaml").write_text(settings)
    await env.ended()
    await env.archiver.tick()
    env.tables.database.psql("UPDATE rqueue.task_lives SET finished_at = now() - interval '9 days'")
    lease = await env.harness.running()
    await lease.complete()
    with program(valkey.url, tmp_path, *WORDS) as running:

        async def pruned() -> bool:
            await asyncio.sleep(0.05)
            days = await env.queue.archive.metrics()
            lives = {task for task, _ in env.tables.lives()}
            return bool(days) and lives == {lease.id}

        await until(pruned)
        code = running.end()

    assert code == 0
    assert not [line for line in running.lines() if line["level"] == "error"]
