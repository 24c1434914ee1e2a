"""`rqueue dead show` and `report` where decisions are in an archive that nobody here knows of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue import TaskId
from tests.archive.archived_harness import ArchivedHarness, housed
from tests.cli.conftest import Shell
from tests.cli.test_dead import died
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def home(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with housed(valkey, pg) as found:
        yield found


@pytest.fixture
def bare(valkey: Server, nowhere: Path) -> Shell:
    """A shell that knows the queue's Redis alone."""
    return Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})


async def decided(home: ArchivedHarness) -> TaskId:
    """A dead task with a decision in the archive, and a later one that is not there yet."""
    task = await died(home.harness)
    await home.queue.dead.decide(task, "escalate", note="first")
    await home.archiver.tick()
    await home.queue.dead.decide(task, "escalate", note="second")
    return task


def pages(folder: Path) -> list[Path]:
    return list(folder.glob("*.md"))


async def test_no_report_is_written_without_what_the_archive_has(
    home: ArchivedHarness, bare: Shell, nowhere: Path
) -> None:
    await decided(home)

    for words in ((), ("--json",)):
        found = await bare.run("dead", "report", *words)
        assert (found.exit_code, found.stdout) == (5, "")
        assert "RQUEUE_POSTGRES_URL" in found.stderr

    assert pages(nowhere) == []


async def test_a_task_is_shown_with_a_note_of_what_may_be_missing(
    home: ArchivedHarness, bare: Shell
) -> None:
    task = await decided(home)

    shown = await bare.run("dead", "show", task)
    (document,) = await bare.json("dead", "show", task)

    assert shown.exit_code == 0
    assert "earlier decisions may be missing: postgres_url" in shown.stderr
    assert "second" in shown.stdout
    assert [review["note"] for review in document["reviews"]] == ["second"]


async def test_a_task_is_shown_while_the_archive_is_away(
    home: ArchivedHarness, bare: Shell
) -> None:
    task = await decided(home)
    away = Shell({**bare.env, "RQUEUE_POSTGRES_URL": "postgresql:///x?host=/nowhere"})

    shown = await away.run("dead", "show", task)

    assert shown.exit_code == 0
    assert "earlier decisions may be missing" in shown.stderr
    assert "second" in shown.stdout
