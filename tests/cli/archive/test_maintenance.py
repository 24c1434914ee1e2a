"""`rqueue archive metrics, prune, restore, verify, leave`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue.archive.maintenance.metrics import Recorder
from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.cli.conftest import Shell
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def home(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with archived_harness(valkey, pg) as found:
        yield found


@pytest.fixture
def shell(valkey: Server, pg: Database, empty_dir: Path) -> Shell:
    url = pg.url
    return Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME, "RQUEUE_POSTGRES_URL": url})


async def test_without_an_archive_the_error_names_the_setting(
    valkey: Server, empty_dir: Path
) -> None:
    bare = Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})

    for words in (["metrics"], ["prune"], ["verify"], ["restore", "--task", "x"]):
        found = await bare.run("archive", *words)
        assert (found.exit_code, "RQUEUE_POSTGRES_URL" in found.stderr) == (5, True)


async def test_metrics_show_one_row_for_each_day(home: ArchivedHarness, shell: Shell) -> None:
    recorder = Recorder(home.queue._internals.shard, home.tables.archive, home.queue.settings)
    await recorder.tick()
    await home.ended()
    await home.archiver.tick()
    await recorder.tick()

    (row,) = await shell.json("archive", "metrics")
    assert (row["period"], row["tasks_created"], row["tasks_completed"]) == ("day", 1, 1)
    assert row["error_rates_per_agent"] == {"w1": 0.0}
    titles, line = await shell.lines("archive", "metrics", "--period", "minute")
    assert titles.split()[:3] == ["START", "CREATED", "COMPLETED"]
    assert line.split()[2:5] == ["1", "1", "0"]
    assert await shell.json("archive", "metrics", "--since", "2999-01-01") == []
    assert (await shell.run("archive", "metrics", "--period", "year")).exit_code == 2


async def test_prune_counts_in_a_dry_run_and_then_deletes(
    home: ArchivedHarness, shell: Shell, empty_dir: Path
) -> None:
    await home.ended()
    await home.archiver.tick()
    home.tables.database.psql(
        "UPDATE rqueue.task_lives SET finished_at = now() - interval '9 days'"
    )
    assert "forever" in (await shell.run("archive", "prune")).stderr

    (empty_dir / "rqueue.yaml").write_text(
        f"queues:\n  {NAME}:\n    retention: {{completed_days: 8}}\n"
    )
    (dry,) = await shell.json("archive", "prune", "--dry-run")
    assert (dry["completed"], dry["dry_run"], len(home.tables.lives())) == (1, True, 1)
    (done,) = await shell.json("archive", "prune")
    assert (done["completed"], home.tables.lives()) == (1, set())


async def test_a_restored_task_shows_its_old_id(home: ArchivedHarness, shell: Shell) -> None:
    task = await home.ended()
    await home.archiver.tick()

    (dry,) = await shell.json("archive", "restore", "--task", task, "--dry-run")
    (done,) = await shell.json("archive", "restore", "--task", task)
    (line,) = await shell.lines("archive", "restore", "--task", task)

    new = done["tasks"][task]
    assert (dry["dry_run"], done["created"]) == (True, True)
    assert line == f"{task} was restored before as {new}"
    assert f"old id   {task}" in await shell.lines("task", new)


async def test_a_dag_is_restored_completely_or_in_part(home: ArchivedHarness, shell: Shell) -> None:
    plan = {"tasks": [{"name": "a", "type": "t"}, {"name": "b", "type": "t", "after": ["a"]}]}
    dag = await home.queue.dags.submit(plan)
    await home.run()
    await home.archiver.tick()

    (whole,) = await shell.json("archive", "restore", "--dag", dag.id)
    part = await shell.run("archive", "restore", "--dag", dag.id, "--incomplete")

    assert (len(whole["tasks"]), (await home.queue.dags.get(whole["dag"])).id) == (2, whole["dag"])
    assert (part.exit_code, "nothing to restore" in part.stderr) == (2, True)


async def test_a_restore_while_the_archiver_is_behind_is_exit_3(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()

    found = await shell.run("archive", "restore", "--task", task)

    assert (found.exit_code, "when `rqueue archiver` has archived" in found.stderr) == (3, True)


@pytest.mark.parametrize(
    "words", [(), ("--task", "x", "--dag", "y"), ("--task", "x", "--incomplete")]
)
async def test_a_restore_needs_either_a_task_or_a_dag(
    home: ArchivedHarness, shell: Shell, words: tuple[str, ...]
) -> None:
    assert (await shell.run("archive", "restore", *words)).exit_code == 2


async def test_a_restore_of_an_unknown_task_is_exit_1(home: ArchivedHarness, shell: Shell) -> None:
    found = await shell.run("archive", "restore", "--dag", "dag_01JZ0000007000800000000000")

    assert found.exit_code == 1


async def test_verify_is_exit_1_until_lost_tasks_are_archived(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()
    await home.harness.client.delete(home.harness.keys.outbox())
    await home.harness.client.hdel(home.harness.keys.stats(), "outbox")

    lost = await shell.run("archive", "verify")
    assert (lost.exit_code, f"{task} life 1 is lost" in lost.stdout) == (1, True)

    repaired = await shell.run("archive", "verify", "--repair")
    assert (repaired.exit_code, "resent" in repaired.stdout) == (1, True)
    await home.archiver.tick()
    (found,) = await shell.json("archive", "verify")
    assert (found["whole"], found["lost"], found["looked_at"]) == (True, [], 1)


async def test_verify_repairs_the_counter(home: ArchivedHarness, shell: Shell) -> None:
    await home.ended()
    await home.harness.client.hincrby(home.harness.keys.stats(), "outbox", 3)

    repaired = await shell.run("archive", "verify", "--repair")

    assert repaired.exit_code == 1
    assert "outbox           1 (counter 4)\n" in repaired.stdout
    assert "counter set to   1\n" in repaired.stdout
    assert (await shell.run("archive", "verify")).exit_code == 0


async def test_verify_shows_counted_tasks_that_are_unaccounted_for(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()
    await home.archiver.tick()
    await home.harness.client.delete(home.harness.keys.task(task.ulid))
    home.tables.database.psql("DELETE FROM rqueue.task_lives")

    printed, (found,) = await shell.run("archive", "verify"), await shell.json("archive", "verify")

    assert "COMPLETED        1 counted, 0 archived, 0 pending\n" in printed.stdout
    assert "unaccounted      at least 1\n" in printed.stdout
    assert printed.exit_code == 0
    assert found["ends"]["COMPLETED"] == {"counted": 1, "archived": 0, "waiting": 0}
    assert (found["unaccounted"], found["whole"]) == (1, True)


async def test_leave_detaches_the_archive_when_no_task_waits_to_be_archived(
    home: ArchivedHarness, shell: Shell, valkey: Server
) -> None:
    bare = Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})
    await home.archiver.tick()
    await home.ended()
    assert "not configured here, but the queue has one" in (await bare.run("doctor")).stdout

    refused = await bare.run("archive", "leave")
    assert (
        refused.exit_code,
        "1 entries in the outbox are not archived yet" in refused.stderr,
    ) == (3, True)
    assert await home.harness.client.exists(home.harness.keys.archiving()) == 1
    await home.archiver.tick()

    assert await bare.json("archive", "leave") == [{"left": NAME}]
    assert await home.harness.client.exists(home.harness.keys.archiving()) == 0
    assert "not configured here, but the queue has one" not in (await bare.run("doctor")).stdout
    assert "still have archive: postgres" in (await shell.run("archive", "leave")).stderr
