"""`rqueue archive` and `rqueue task`: their output for ended tasks, as text and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from rqueue.cli.archive import export
from rqueue.cli.archive.file_formats import columns
from rqueue.task.forms import view
from rqueue.task.ids import new_task_id
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.cli.conftest import Shell
from tests.dead.test_admin import trace
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server

HOSTILE = (
    "=1+1",
    "+cmd|'/c calc'!A0",
    "-2",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\n=1",
    "\uff1d1",
    'a "quoted", cell\n',
    "\x1b[2J",
)


@pytest.fixture
async def env(valkey: Server, pg: Database) -> AsyncIterator[ReaderHarness]:
    """A queue whose archive records agent events."""
    async with reader_harness(valkey, pg, agent_events=True) as found:
        yield found


@pytest.fixture
def shell(valkey: Server, pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the URLs of both servers, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return Shell({
        "RQUEUE_REDIS_URL": valkey.url, "RQUEUE_POSTGRES_URL": pg.url, "RQUEUE_QUEUE": NAME,
    })  # fmt: skip


def put(name: str, text: str) -> None:
    Path(name).write_text(text)


def contents() -> dict[str, str]:
    """Returns the files of the working directory."""
    return {path.name: path.read_text("utf-8") for path in Path.cwd().iterdir()}


async def few_ended(env: ReaderHarness) -> list[Any]:
    """Returns a few ended tasks that are only in the archive, the last first."""
    first = await env.completed("other", {"a": 1}, tags=["red"])
    lease = await env.lease("code", {"find": "Needle_1"})
    await lease.spend(0.5, tokens_in=4, model="big")
    await lease.complete()
    second = await env.queue.get(lease.id)
    third = await env.dead(error="it broke\nbadly")
    await env.moved()
    return [third, second, first]


@pytest.mark.parametrize(
    "words",
    [
        ("search", "--status", "running"),
        ("search", "--since", "tomorrow"),
        ("search", "--since", "2026-13-01"),
        ("search", "--since", "999999d"),
        ("search", "--limit", "0"),
        ("search", "--type", "no name"),
        ("spend", "--by", "colour"),
        ("events", "--task", "mine"),
        ("export", "--format", "xml"),
        ("export", "--format", "parquet"),
        ("export",),
        ("export", "--format", "csv", "-o", "no/such/place.csv"),
    ],
)
async def test_wrong_usage_is_exit_2(
    env: ReaderHarness, shell: Shell, words: tuple[str, ...]
) -> None:
    result = await shell.run("archive", *words)

    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("word", ["search", "spend", "events"])
async def test_without_an_archive_each_command_names_the_setting(
    valkey: Server, shell: Shell, word: str
) -> None:
    bare = Shell({"RQUEUE_REDIS_URL": valkey.url, "RQUEUE_QUEUE": NAME})

    result = await bare.run("archive", word)

    assert result.exit_code == 5
    assert "RQUEUE_POSTGRES_URL" in result.stderr


async def test_an_archive_without_tables_is_exit_5(shell: Shell, pg: Database) -> None:
    pg.psql("DROP SCHEMA rqueue CASCADE")

    result = await shell.run("archive", "search")

    assert result.exit_code == 5
    assert "rqueue archive migrate" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("search", "--text", "nowhere"),
        ("spend", "--type", "nobody"),
        ("events", "--agent", "nobody"),
        ("export", "--format", "csv", "--tag", "nobody"),
    ],
)
async def test_nothing_found_is_exit_1(
    env: ReaderHarness, shell: Shell, words: tuple[str, ...]
) -> None:
    await few_ended(env)

    assert (await shell.run("archive", *words)).exit_code == 1


async def test_a_search_lists_what_ended_last_first(env: ReaderHarness, shell: Shell) -> None:
    tasks = await few_ended(env)

    heading, *lines = await shell.lines("archive", "search")
    assert heading.split() == ["ID", "TYPE", "STATE", "ENDED", "FAILED", "COST", "WHY"]
    assert [line.split()[0] for line in lines] == [task.id for task in tasks]
    assert lines[0].endswith("it broke")
    for words, place in (
        (("--text", "needle_1"), 1),
        (("--status", "dead-letter"), 0),
        (("--tag", "red", "--since", "1d"), 2),
        (("--type", "other", "--until", "2999-01-01"), 2),
    ):
        (found,) = await shell.json("archive", "search", *words)
        expected = json.loads(json.dumps(view(tasks[place])))
        for document in (found, expected):
            # The age of dead tasks still grows.
            del document["effective_priority"], document["tier"]
        assert found == expected


async def test_lists_show_the_error(env: ReaderHarness, shell: Shell) -> None:
    await env.dead(error=trace("ValueError: bad customer"))
    await env.moved()

    for word in ("search", "events"):
        (_, line) = await shell.lines("archive", word)
        assert line.endswith("ValueError: bad customer"), word


@pytest.mark.parametrize("words", [("search",), ("events",), ("spend", "--by", "type")])
async def test_a_reached_limit_is_reported(
    env: ReaderHarness, shell: Shell, words: tuple[str, ...]
) -> None:
    for type in ("one", "two", "three"):
        lease = await env.lease(type)
        await lease.spend(0.5)
        await lease.complete()
    await env.moved()

    cut = await shell.run("archive", *words, "--limit", "2", "--json")
    whole = await shell.run("archive", *words, "--limit", "3", "--json")

    assert [len(found.stdout.splitlines()) for found in (cut, whole)] == [2, 3]
    assert "there are more than 2" in cut.stderr
    assert whole.stderr == ""


async def test_a_task_and_its_life_are_shown_from_the_archive(
    env: ReaderHarness, shell: Shell
) -> None:
    tasks = await few_ended(env)

    lines = await shell.lines("task", tasks[0].id)
    assert "it broke" in "\n".join(lines)
    (found,) = await shell.json("task", str(tasks[1].id.uuid))
    assert (found["id"], found["state"]) == (tasks[1].id, "COMPLETED")
    assert (await shell.run("task", new_task_id())).exit_code == 1


async def test_spending_is_summed_by_the_given_groups(env: ReaderHarness, shell: Shell) -> None:
    await few_ended(env)

    (found,) = await shell.json("archive", "spend", "--by", "type, model", "--since", "7d")
    assert found == {"type": "code", "model": "big", "cost_usd": 0.5, "tokens": 4, "tasks": 1}
    heading, line = await shell.lines("archive", "spend", "--by", "agent")
    assert (heading.split(), line.split()) == (
        ["AGENT", "COST", "TOKENS", "TASKS"], ["w1", "$0.50", "4", "1"],
    )  # fmt: skip


async def test_spending_can_be_grouped_by_model(env: ReaderHarness, shell: Shell) -> None:
    lease = await env.lease()
    words = ("--token", lease.token, "--usd", "0.5", "--model")
    assert (await shell.run("spend", lease.id, *words, "not a label")).exit_code == 2
    await shell.lines("spend", lease.id, *words, "big")
    await lease.complete()
    await env.moved()

    (found,) = await shell.json("archive", "spend", "--by", "model")
    assert (found["model"], found["cost_usd"]) == ("big", 0.5)


async def test_events_are_listed(env: ReaderHarness, shell: Shell) -> None:
    tasks = await few_ended(env)

    found = await shell.json("archive", "events", "--agent", "w1")
    assert [event["task_id"] for event in found] == [task.id for task in tasks]
    (one,) = await shell.json("archive", "events", "--task", tasks[0].id)
    assert one["event"] == "task.dead_lettered"
    lines = await shell.lines("archive", "events", "--limit", "1")
    assert len(lines) == 2


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
async def test_an_export_has_all_matching_tasks_in_one_file(
    env: ReaderHarness, shell: Shell, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "BATCH", 2)
    tasks = await few_ended(env)
    before = set(Path.cwd().iterdir())

    lines = await shell.lines("archive", "export", "--format", form, "-o", f"out.{form}")

    assert lines == [f"out.{form}: 3 tasks"]
    assert set(Path.cwd().iterdir()) - before == {Path.cwd() / f"out.{form}"}
    rows = read(Path(f"out.{form}"), form)
    assert [row["id"] for row in rows] == [task.id for task in tasks]
    assert set(rows[0]) == set(view(tasks[0]))
    payload = rows[1]["payload"]
    assert (payload if form == "jsonl" else json.loads(payload)) == {"find": "Needle_1"}
    assert float(rows[1]["cost_usd"]) == 0.5


def read(path: Path, form: str) -> list[dict[str, Any]]:
    if form == "parquet":
        table = pyarrow.parquet.read_table(path)
        return [dict(row) for row in table.to_pylist()]
    text = path.read_bytes().decode()
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_field_has_a_column() -> None:
    kinds = columns()

    assert kinds["payload"] == "json"
    assert (kinds["created_at"], kinds["attempts"], kinds["cost_usd"]) == (
        "time", "integer", "number",
    )  # fmt: skip


async def test_no_cell_of_csv_is_a_formula(env: ReaderHarness, shell: Shell) -> None:
    for text in HOSTILE:
        await env.dead(error=text, payload={"p": text})
    await env.archive()

    await shell.lines("archive", "export", "--format", "csv", "-o", "out.csv")

    for row in read(Path("out.csv"), "csv"):
        for name, cell in row.items():
            number = columns()[name] in ("number", "integer")
            assert number or not cell or cell[0] not in "=+-@\t\r\n\uff1d", (name, cell)
    errors = {row["last_error"] for row in read(Path("out.csv"), "csv")}
    assert errors >= {"'=1+1", "'\n=1", "'-2", 'a "quoted", cell\n'}


async def test_a_failed_export_keeps_the_old_file(
    env: ReaderHarness, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    await few_ended(env)
    put("out.jsonl", "before")
    env.sql("ALTER TABLE rqueue.task_lives RENAME COLUMN record TO gone")

    result = await shell.run("archive", "export", "--format", "jsonl", "-o", "out.jsonl")

    assert result.exit_code == 5
    assert contents() == {"out.jsonl": "before"}


async def test_an_export_goes_to_standard_output_and_ends_at_its_limit(
    env: ReaderHarness, shell: Shell
) -> None:
    tasks = await few_ended(env)

    lines = await shell.lines("archive", "export", "--format", "jsonl", "--limit", "2")

    assert [json.loads(line)["id"] for line in lines] == [task.id for task in tasks[:2]]
