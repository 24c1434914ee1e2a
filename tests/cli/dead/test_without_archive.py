"""`rqueue dead show` and `report` where the archive is not configured or unavailable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue import TaskId
from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def archived(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with archived_harness(valkey, pg) as found:
        yield found


@pytest.fixture
def redis_shell(valkey: Server, empty_dir: Path) -> Shell:
    """A shell that is configured for Redis but not for the archive."""
    return Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})


async def decided(archived: ArchivedHarness) -> TaskId:
    """A dead task with an archived decision, and a later one that is not archived yet."""
    task = await died(archived.harness)
    await archived.queue.dead.decide(task, "escalate", note="first")
    await archived.archiver.tick()
    await archived.queue.dead.decide(task, "escalate", note="second")
    return task


def pages(folder: Path) -> list[Path]:
    return list(folder.glob("*.md"))


async def test_no_report_is_written_without_the_archive(
    archived: ArchivedHarness, redis_shell: Shell, empty_dir: Path
) -> None:
    await decided(archived)

    for words in ((), ("--json",)):
        found = await redis_shell.run("dead", "report", *words)
        assert (found.exit_code, found.stdout) == (5, "")
        assert "RQUEUE_POSTGRES_URL" in found.stderr

    assert pages(empty_dir) == []


async def test_a_task_is_shown_with_a_note_that_decisions_may_be_missing(
    archived: ArchivedHarness, redis_shell: Shell
) -> None:
    task = await decided(archived)

    shown = await redis_shell.run("dead", "show", task)
    (document,) = await redis_shell.json("dead", "show", task)

    assert shown.exit_code == 0
    assert "earlier decisions may be missing: postgres_url" in shown.stderr
    assert "second" in shown.stdout
    assert [review["note"] for review in document["reviews"]] == ["second"]


async def test_a_task_is_shown_while_the_archive_is_unavailable(
    archived: ArchivedHarness, redis_shell: Shell
) -> None:
    task = await decided(archived)
    away = Shell({**redis_shell.env, "RQUEUE_POSTGRES_URL": "postgresql:///x?host=/nowhere"})

    shown = await away.run("dead", "show", task)

    assert shown.exit_code == 0
    assert "earlier decisions may be missing" in shown.stderr
    assert "second" in shown.stdout
