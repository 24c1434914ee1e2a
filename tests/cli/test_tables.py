"""Output: progress in a terminal, and the headlines of errors in lists."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rqueue import TaskId
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died, text_of
from tests.cli.terminal import terminal
from tests.dead.test_admin import trace
from tests.harness import NAME, Harness
from tests.servers import Server


async def written(server: Server, folder: Path, *words: str) -> bytes:
    """All output of a command in a terminal."""
    env = {**os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME}
    with terminal((sys.executable, "-m", "rqueue", *words), env=env, cwd=folder) as shown:
        assert await shown.end() == 0
        return bytes(shown.written)


async def test_a_progress_bar_is_shown_in_a_terminal_but_not_as_json(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    (tmp_path / "tasks").write_text('{"type": "code"}\n{"type": "code"}\n')

    seen = await written(valkey, tmp_path, "enqueue", "--file", "tasks")
    read = await written(valkey, tmp_path, "enqueue", "--file", "tasks", "--json")

    assert b"enqueue" in seen
    assert b"\x1b" not in read
    assert [json.loads(line)["created"] for line in read.splitlines()] == [True, True]


async def test_a_bulk_cancel_shows_progress_in_a_terminal_but_not_as_json(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    await alone.queue.enqueue("code")
    seen = await written(valkey, tmp_path, "cancel", "--all")
    await alone.queue.enqueue("code")
    read = await written(valkey, tmp_path, "cancel", "--all", "--json")

    assert b"\x1b[?25l" in seen
    assert json.loads(read)["done"] == 1


BAD = "ValueError: bad customer"


async def retried_and_failed(harness: Harness, task: TaskId, error: str) -> None:
    """Retries a dead task, which fails permanently again."""
    await harness.queue.dead.retry(task)
    (lease,) = await harness.queue.claim(worker="w2")
    await lease.start()
    await lease.fail("error", error, permanent=True)


@pytest.mark.parametrize(
    "words",
    [("dead", "list"), ("tasks", "--status", "dead_lettered"), ("task", "TASK"), ("top",)],
    ids=lambda words: words[0],
)
async def test_a_list_shows_the_headline_of_an_error(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await died(harness, trace(f"{BAD}\nmore of it"))

    page = await shell.lines(*(task if word == "TASK" else word for word in words))

    assert any(BAD in line for line in page)
    assert not any("Traceback" in line or "more of it" in line for line in page)


async def test_a_dag_shows_the_headline_of_an_error(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag("shop") as dag:
        dag.add(harness.queue.call("code"), name="first")
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", trace(BAD), permanent=True)

    page = "\n".join(await shell.lines("dag", "show", str(dag.id)))

    assert f"error: {BAD}" in page


async def test_json_has_the_whole_error(harness: Harness, shell: Shell) -> None:
    task = await died(harness, trace(BAD))

    (listed,) = await shell.json("dead", "list")
    (shown,) = await shell.json("dead", "show", task)

    assert listed["error"] == shown["last_error"] == trace(BAD)


async def test_the_page_of_a_task_has_each_traceback_once(harness: Harness, shell: Shell) -> None:
    task = await died(harness, trace("OSError: the database is away"))
    await retried_and_failed(harness, task, "short")
    await retried_and_failed(harness, task, trace(BAD))
    await retried_and_failed(harness, task, trace(BAD))

    page = await shell.lines("dead", "show", task)

    table = [line for line in page if line.startswith("1 ")]
    assert [line.split("  ")[-1].strip() for line in table] == [
        "OSError: the database is away", "short", BAD, BAD,
    ]  # fmt: skip
    assert page.count("  Traceback (most recent call last):") == 2
    assert page.index("error") < page.index(f"  {BAD}") < page.index(table[0])
    assert page.index(table[-1]) < page.index("  OSError: the database is away")
    assert len([line for line in page if line.startswith("attempt 1, 20")]) == 1
    assert "  short" not in page


async def test_both_ends_of_a_long_error_are_shown(harness: Harness, shell: Shell) -> None:
    lines = [f"line {number}" for number in range(100)]
    task = await died(harness, "\n".join(lines))

    page = await shell.lines("dead", "show", task)

    assert "  line 0" in page
    assert "  line 99" in page
    assert "  ... 60 more lines" in page
    assert "  line 50" not in page


async def test_a_report_shows_the_headlines_of_earlier_reviews_too(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness, trace(BAD))
    await harness.queue.dead.decide(task, "escalate")
    ((_, fields),) = await harness.client.xrange(harness.keys.reviews())
    early = {**fields, b"error": trace(BAD)[:300].encode()}
    await harness.client.xadd(harness.keys.reviews(), early)

    (path,) = await shell.lines("dead", "report")

    first, second = [line for line in text_of(path).split("\n") if line.startswith("| 20")]
    assert f"error: {BAD} (" in first
    assert "error: a traceback without its end: rows in rows.py (" in second
