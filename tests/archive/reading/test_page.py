"""docs/archive.md is run: each query on a real PostgreSQL, and what it shows of Python."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.archive.reading.library import Library

PAGE = (Path(__file__).parents[3] / "docs" / "archive.md").read_text("utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def ended(library: Library) -> None:
    """Tasks of several kinds, some of which cost something."""
    lease = await library.lease(
        "code", {"customer": "acme"}, tags=["nightly"], agent_name="FitmentAgent"
    )
    await lease.spend(0.5, tokens_in=2, model="big")
    await lease.complete({"total": 7})
    await library.dead()
    await library.archive()


async def test_every_ready_query_answers(library: Library) -> None:
    await ended(library)

    assert len(QUERIES) >= 15
    answered = 0
    for query in QUERIES:
        with psycopg.connect(library.database.url) as line:
            cursor = line.execute(query.encode())
            while cursor.nextset():
                pass
            answered += bool(cursor.fetchall())
    # Those about ids of the page find nothing, nor those about what did not happen.
    assert answered >= 9


@pytest.mark.parametrize("table", ["task_lives", "failed_attempts", "dags", "agent_events",
                                   "late_costs", "life_costs", "life_events",
                                   "embedding_jobs", "task_queue_metrics", "dead_letter_reviews",
                                   "quarantine", "conflicts", "tasks", "attempts", "spending",
                                   "reference_tasks", "automechanica_tasks", "completed",
                                   "dead_letter", "cancelled"])  # fmt: skip
async def test_every_table_and_view_is_there_and_on_the_page(
    one_library: Library, table: str
) -> None:
    assert f"`{table}`" in PAGE
    assert one_library.sql(f"SELECT count(*) FROM rqueue.{table}") == [(0,)]


async def test_what_the_page_shows_of_python_works(
    one_library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    await ended(one_library)
    names: dict[str, Any] = {}

    for block in BLOCKS:
        source = block.replace("postgresql://localhost/rqueue", one_library.database.url)
        code = compile(source, "archive.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran

    assert len(BLOCKS) == 1
    await names["queue"].aclose()
    assert names["number"] == 0
    assert capsys.readouterr().out == ""
