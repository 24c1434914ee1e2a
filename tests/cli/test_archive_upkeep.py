"""`rqueue archive metrics, prune, restore, verify, leave`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue.archive.maintenance.metrics import Recorder
from tests.archive.archived_harness import ArchivedHarness, housed
from tests.cli.conftest import Shell
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def home(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with housed(valkey, pg) as found:
        yield found


@pytest.fixture
def shell(valkey: Server, pg: Database, nowhere: Path) -> Shell:
    url = pg.url
    return Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME, "RQUEUE_POSTGRES_URL": url})


async def test_without_an_archive_they_say_what_to_set(valkey: Server, nowhere: Path) -> None:
    bare = Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})

    for words in (["metrics"], ["prune"], ["verify"], ["restore", "--task", "x"]):
        found = await bare.run("archive", *words)
        assert (found.exit_code, "RQUEUE_POSTGRES_URL" in found.stderr) == (5, True)


async def test_a_day_is_shown_as_a_row(home: ArchivedHarness, shell: Shell) -> None:
    recorder = Recorder(home.queue._internals.shard, home.kept.archive, home.queue.settings)
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


async def test_what_would_go_is_counted_and_then_goes(
    home: ArchivedHarness, shell: Shell, nowhere: Path
) -> None:
    await home.ended()
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.task_lives SET finished_at = now() - interval '9 days'")
    assert "for ever" in (await shell.run("archive", "prune")).stderr

    (nowhere / "rqueue.yaml").write_text(
        f"queues:\n  {NAME}:\n    retention: {{completed_days: 8}}\n"
    )
    (dry,) = await shell.json("archive", "prune", "--dry-run")
    assert (dry["completed"], dry["dry_run"], len(home.kept.lives())) == (1, True, 1)
    (done,) = await shell.json("archive", "prune")
    assert (done["completed"], home.kept.lives()) == (1, set())


async def test_a_task_is_restored_and_says_what_it_was(home: ArchivedHarness, shell: Shell) -> None:
    task = await home.ended()
    await home.archiver.tick()

    (dry,) = await shell.json("archive", "restore", "--task", task, "--dry-run")
    (done,) = await shell.json("archive", "restore", "--task", task)
    (line,) = await shell.lines("archive", "restore", "--task", task)

    new = done["tasks"][task]
    assert (dry["dry_run"], done["created"]) == (True, True)
    assert line == f"{task} was restored before as {new}"
    assert f"was      {task}" in await shell.lines("task", new)


async def test_a_dag_is_restored_whole_or_in_part(home: ArchivedHarness, shell: Shell) -> None:
    plan = {"tasks": [{"name": "a", "type": "t"}, {"name": "b", "type": "t", "after": ["a"]}]}
    dag = await home.queue.dags.submit(plan)
    await home.run()
    await home.archiver.tick()

    (whole,) = await shell.json("archive", "restore", "--dag", dag.id)
    part = await shell.run("archive", "restore", "--dag", dag.id, "--incomplete")

    assert (len(whole["tasks"]), (await home.queue.dags.get(whole["dag"])).id) == (2, whole["dag"])
    assert (part.exit_code, "nothing to restore" in part.stderr) == (2, True)


async def test_a_restore_while_the_archiver_is_behind_ends_with_3(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()

    found = await shell.run("archive", "restore", "--task", task)

    assert (found.exit_code, "when `rqueue archiver` has archived" in found.stderr) == (3, True)


@pytest.mark.parametrize(
    "words", [(), ("--task", "x", "--dag", "y"), ("--task", "x", "--incomplete")]
)
async def test_a_restore_of_nothing_or_two_is_wrong_usage(
    home: ArchivedHarness, shell: Shell, words: tuple[str, ...]
) -> None:
    assert (await shell.run("archive", "restore", *words)).exit_code == 2


async def test_what_is_not_there_is_not_found(home: ArchivedHarness, shell: Shell) -> None:
    found = await shell.run("archive", "restore", "--dag", "dag_01JZ0000007000800000000000")

    assert found.exit_code == 1


async def test_verify_ends_with_1_until_what_is_lost_is_back(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()
    await home.harness.client.delete(home.harness.keys.outbox())
    await home.harness.client.hdel(home.harness.keys.stats(), "outbox")

    lost = await shell.run("archive", "verify")
    assert (lost.exit_code, f"{task} life 1 is lost" in lost.stdout) == (1, True)

    repaired = await shell.run("archive", "verify", "--repair")
    assert (repaired.exit_code, "sent again" in repaired.stdout) == (1, True)
    await home.archiver.tick()
    (found,) = await shell.json("archive", "verify")
    assert (found["whole"], found["lost"], found["looked_at"]) == (True, [], 1)


async def test_verify_mends_the_counter(home: ArchivedHarness, shell: Shell) -> None:
    await home.ended()
    await home.harness.client.hincrby(home.harness.keys.stats(), "outbox", 3)

    repaired = await shell.run("archive", "verify", "--repair")

    assert repaired.exit_code == 1
    assert "outbox           1 (counter 4)\n" in repaired.stdout
    assert "counter set to   1\n" in repaired.stdout
    assert (await shell.run("archive", "verify")).exit_code == 0


async def test_verify_tells_what_was_counted_and_is_nowhere(
    home: ArchivedHarness, shell: Shell
) -> None:
    task = await home.ended()
    await home.archiver.tick()
    await home.harness.client.delete(home.harness.keys.task(task.ulid))
    home.kept.database.psql("DELETE FROM rqueue.task_lives")

    told, (found,) = await shell.run("archive", "verify"), await shell.json("archive", "verify")

    assert "COMPLETED        1 counted, 0 archived, 0 on their way\n" in told.stdout
    assert "nowhere          at least 1\n" in told.stdout
    assert told.exit_code == 0
    assert found["ends"]["COMPLETED"] == {"counted": 1, "archived": 0, "waiting": 0}
    assert (found["unaccounted"], found["whole"]) == (1, True)


async def test_a_queue_leaves_its_archive_when_nothing_waits_for_it(
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
    assert "still say archive: postgres" in (await shell.run("archive", "leave")).stderr
