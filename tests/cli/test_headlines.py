"""Wherever errors are listed, each is told by what was raised; the whole of them is on its page."""

from __future__ import annotations

import pytest

from rqueue import TaskId
from tests.cli.conftest import Shell
from tests.cli.test_dead import died
from tests.cli.test_dead_report import text_of
from tests.dead.test_admin import trace
from tests.harness import Harness

BAD = "ValueError: bad customer"


async def again(harness: Harness, task: TaskId, error: str) -> None:
    """One more life of a dead task, that ends in the same way."""
    await harness.queue.dead.retry(task)
    (lease,) = await harness.queue.claim(worker="w2")
    await lease.start()
    await lease.fail("error", error, permanent=True)


@pytest.mark.parametrize(
    "words",
    [("dead", "list"), ("tasks", "--status", "dead_lettered"), ("task", "TASK"), ("top",)],
    ids=lambda words: words[0],
)
async def test_a_list_says_what_was_raised(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await died(harness, trace(f"{BAD}\nmore of it"))

    page = await shell.lines(*(task if word == "TASK" else word for word in words))

    assert any(BAD in line for line in page)
    assert not any("Traceback" in line or "more of it" in line for line in page)


async def test_a_dag_says_what_was_raised(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag("shop") as dag:
        dag.add(harness.queue.call("code"), name="first")
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", trace(BAD), permanent=True)

    page = "\n".join(await shell.lines("dag", "show", str(dag.id)))

    assert f"error: {BAD}" in page


async def test_programs_are_told_all_of_it(harness: Harness, shell: Shell) -> None:
    task = await died(harness, trace(BAD))

    (listed,) = await shell.json("dead", "list")
    (shown,) = await shell.json("dead", "show", task)

    assert listed["error"] == shown["last_error"] == trace(BAD)


async def test_the_page_of_a_task_has_each_traceback_once(harness: Harness, shell: Shell) -> None:
    task = await died(harness, trace("OSError: the database is away"))
    await again(harness, task, "short")
    await again(harness, task, trace(BAD))
    await again(harness, task, trace(BAD))

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


async def test_of_a_long_text_both_ends_are_shown(harness: Harness, shell: Shell) -> None:
    lines = [f"line {number}" for number in range(100)]
    task = await died(harness, "\n".join(lines))

    page = await shell.lines("dead", "show", task)

    assert "  line 0" in page
    assert "  line 99" in page
    assert "  ... 60 more lines" in page
    assert "  line 50" not in page


async def test_a_report_says_what_was_raised_of_earlier_reviews_too(
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
