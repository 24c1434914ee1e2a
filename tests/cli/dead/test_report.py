"""`rqueue dead report`: the page of decisions, with all texts escaped."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from rqueue.cli.dead.report import escaped
from rqueue.clock import SYSTEM
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died, text_of
from tests.harness import Harness


def today() -> date:
    return SYSTEM.now().date()


async def test_the_page_of_a_day_has_every_decision(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    first, second = await died(harness, "disk 7 full"), await died(harness)
    await harness.queue.dead.decide(first, "modify_and_retry", payload={"n": 2}, note="was 1")
    await harness.queue.dead.decide(second, "delete", cause="invalid_task", by="human:ada")

    (path,) = await shell.lines("dead", "report", "-o", str(tmp_path / "log"))

    assert path == str(tmp_path / "log" / f"dlq-review-{today()}.md")
    page = text_of(path)
    assert page.startswith(f"# Dead tasks: decisions of {today()}\n")
    rows = [line for line in page.splitlines() if line.startswith("| 20")]
    assert len(rows) == 2
    assert [cell.strip() for cell in rows[1].split("|")[2:9]] == [
        "human:ada", f"{escaped(second)}, life 1", "code", rows[1].split("|")[5].strip(), "delete",
        "invalid\\_task", "",
    ]  # fmt: skip
    assert "error: disk 7 full (" in rows[0]
    assert '```json\n{"op": "replace", "path": "/n", "value": 2, "was": 1}\n```' in page


async def test_other_days_have_their_own_page(harness: Harness, shell: Shell) -> None:
    await harness.queue.dead.decide(await died(harness), "escalate")
    since = (SYSTEM.now() - timedelta(days=2)).isoformat()

    await shell.lines("dead", "report", "--date", "2026-01-31")
    (path,) = await shell.lines("dead", "report", "--since", since)

    empty = text_of("dlq-review-2026-01-31.md")
    assert "Nothing was decided." in empty
    assert "escalate 1." in text_of(path)
    assert "_" in path.rpartition("-review-")[2]
    assert len(await shell.json("dead", "report", "--since", since)) == 1
    assert await shell.json("dead", "report", "--date", "2026-01-31") == []


@pytest.mark.parametrize(
    "wrong",
    [("--date", "2026-13-01"), ("--since", "soon"), ("--since", "2026-01-01T00:00:00"),
     ("--date", "2026-01-01", "--until", "2026-01-02T00:00:00Z"),
     ("--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"),
     ("--date", "9999-12-31"), ("--since", "0001-01-01T00:00:00+05:00"),
     ("--until", "9999-12-31T23:59:59-05:00")],
)  # fmt: skip
async def test_invalid_days_are_refused(
    harness: Harness, shell: Shell, wrong: tuple[str, ...]
) -> None:
    found = await shell.run("dead", "report", *wrong)

    assert (found.exit_code, found.stdout) == (2, "")


@pytest.mark.parametrize(
    "old",
    [("--date", "1960-01-01"), ("--date", "0001-01-01"), ("--date", "9999-12-30"),
     ("--since", "1960-01-01T00:00:00Z", "--until", "1961-01-01T00:00:00Z")],
)  # fmt: skip
async def test_a_day_without_decisions_has_an_empty_page(
    harness: Harness, shell: Shell, old: tuple[str, ...]
) -> None:
    await harness.queue.dead.decide(await died(harness), "escalate")

    (path,) = await shell.lines("dead", "report", *old)

    assert "Nothing was decided." in text_of(path)
    assert await shell.json("dead", "report", "--since", "0001-01-01T00:00:00Z") != []


async def test_a_page_is_replaced_by_one_that_covers_its_time(
    harness: Harness, shell: Shell
) -> None:
    await shell.lines("dead", "report", "--since", f"{today()}T00:00:00Z")
    await harness.queue.dead.decide(await died(harness), "escalate")

    for words in (("--since", f"{today()}T00:00:00Z"), (), ()):
        (path,) = await shell.lines("dead", "report", *words)
        assert "escalate 1." in text_of(path)


async def test_a_page_of_another_queue_or_a_longer_time_is_not_replaced(
    harness: Harness, shell: Shell
) -> None:
    await harness.queue.dead.decide(await died(harness), "escalate")
    (path,) = await shell.lines("dead", "report", "--date", str(today()))
    before = text_of(path)
    other = Shell({**shell.env, "RQUEUE_QUEUE": "other"})
    hour = ("--since", f"{today()}T10:00:00Z", "--until", f"{today()}T11:00:00Z")

    for who, words in ((other, ()), (shell, hour), (other, hour)):
        found = await who.run("dead", "report", *words)
        assert (found.exit_code, found.stdout) == (2, "")
        assert f"{path} is the page of " in found.stderr
        assert "give another directory with -o" in found.stderr
    await other.lines("dead", "report", "-o", "other")

    assert text_of(path) == before


async def test_a_file_that_is_no_page_is_not_replaced(
    harness: Harness, shell: Shell, empty_dir: Path
) -> None:
    (empty_dir / f"dlq-review-{today()}.md").write_text("mine")

    found = await shell.run("dead", "report")

    assert (found.exit_code, "is not a page of decisions" in found.stderr) == (2, True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("")
    return path


async def test_a_path_that_cannot_be_written_is_wrong_usage(
    harness: Harness, shell: Shell, file: Path
) -> None:
    found = await shell.run("dead", "report", "-o", str(file / "below"))

    assert found.exit_code == 2
    assert found.stderr


async def test_texts_of_tasks_cannot_add_markup(harness: Harness, shell: Shell) -> None:
    nasty = "a | b\n| c |\n```\n# h <script>x</script> [l](http://e) ![i](//e) \x1b[31m &amp; **b**"
    task = await died(harness, nasty)
    await harness.queue.dead.decide(task, "modify_and_retry", payload={"a": nasty}, note=nasty)

    (path,) = await shell.lines("dead", "report")

    lines = text_of(path).split("\n")
    (row,) = [line for line in lines if line.startswith("| 20")]
    assert len(row.replace("\\|", "").split("|")) == 10
    assert "\x1b" not in "\n".join(lines)
    assert "<script" not in row.replace("\\<", "")
    assert "[l]" not in row
    assert [line for line in lines if line.startswith("```")] == ["```json", "```"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b*c", "a\\_b\\*c"),
        ("see https://e.org or www.e.org", "see https:\\//e.org or www\\.e.org"),
        ("ada@e.org", "ada\\@e.org"),
        ("one\ntwo", "one\\\\ntwo"),
        ("plain - text, 1.5 (ok)", "plain - text, 1.5 (ok)"),
    ],
)
def test_markdown_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
