"""Runs docs/archive.md: each query on a real PostgreSQL, and its Python examples."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.archive.reading.reader_harness import ReaderHarness

PAGE = (Path(__file__).parents[3] / "docs" / "archive.md").read_text("utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def ended(env: ReaderHarness) -> None:
    """Archives tasks of several kinds, some with costs."""
    lease = await env.lease(
        "code", {"customer": "acme"}, tags=["nightly"], agent_name="FitmentAgent"
    )
    await lease.spend(0.5, tokens_in=2, model="big")
    await lease.complete({"total": 7})
    await env.dead()
    await env.archive()


async def test_every_documented_query_runs(env: ReaderHarness) -> None:
    await ended(env)

    assert len(QUERIES) >= 15
    answered = 0
    for query in QUERIES:
        with psycopg.connect(env.database.url) as line:
            cursor = line.execute(query.encode())
            while cursor.nextset():
                pass
            answered += bool(cursor.fetchall())
    # Queries for the page's own ids, or for events that did not happen, find nothing.
    assert answered >= 9


@pytest.mark.parametrize("table", ["task_lives", "failed_attempts", "dags", "agent_events",
                                   "late_costs", "life_costs", "life_events",
                                   "embedding_jobs", "task_queue_metrics", "dead_letter_reviews",
                                   "quarantine", "conflicts", "tasks", "attempts", "spending",
                                   "reference_tasks", "automechanica_tasks", "completed",
                                   "dead_letter", "cancelled"])  # fmt: skip
async def test_every_table_and_view_is_documented(pg_env: ReaderHarness, table: str) -> None:
    assert f"`{table}`" in PAGE
    assert pg_env.sql(f"SELECT count(*) FROM rqueue.{table}") == [(0,)]


async def test_the_python_examples_of_the_page_run(
    pg_env: ReaderHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    await ended(pg_env)
    names: dict[str, Any] = {}

    for block in BLOCKS:
        source = block.replace("postgresql://localhost/rqueue", pg_env.database.url)
        code = compile(source, "archive.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran

    assert len(BLOCKS) == 1
    await names["queue"].aclose()
    assert names["number"] == 0
    assert capsys.readouterr().out == ""
