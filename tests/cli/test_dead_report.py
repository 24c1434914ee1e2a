"""`rqueue dead report`: the dated page of decisions, in which no text is more than a text."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rqueue.cli.dead_report import escaped
from rqueue.clock import SYSTEM
from tests.cli.conftest import Shell
from tests.cli.test_dead import died
from tests.house import House


def text_of(path: str) -> str:
    return Path(path).read_text("utf-8")


async def test_the_page_of_a_day_has_every_decision(
    house: House, shell: Shell, tmp_path: Path
) -> None:
    first, second = await died(house, "disk 7 full"), await died(house)
    await house.queue.resolve(first, "modify_and_retry", payload={"n": 2}, note="was 1")
    await house.queue.resolve(second, "delete", cause="invalid_task", by="human:ada")
    today = SYSTEM.now().date()

    (path,) = await shell.lines("dead", "report", "-o", str(tmp_path / "log"))

    assert path == str(tmp_path / "log" / f"dlq-review-{today}.md")
    page = text_of(path)
    assert page.startswith(f"# Dead tasks: decisions of {today}\n")
    rows = [line for line in page.splitlines() if line.startswith("| 20")]
    assert len(rows) == 2
    assert [cell.strip() for cell in rows[1].split("|")[2:9]] == [
        "human:ada", f"{escaped(second)}, life 1", "code", rows[1].split("|")[5].strip(), "delete",
        "invalid\\_task", "",
    ]  # fmt: skip
    assert "error: disk 7 full (" in rows[0]
    assert '```json\n{"op": "replace", "path": "/n", "value": 2, "was": 1}\n```' in page


async def test_other_days_have_their_own_page(house: House, shell: Shell) -> None:
    await house.queue.resolve(await died(house), "escalate")
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
     ("--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z")],
)  # fmt: skip
async def test_days_that_are_none_are_refused(
    house: House, shell: Shell, wrong: tuple[str, ...]
) -> None:
    found = await shell.run("dead", "report", *wrong)

    assert (found.exit_code, found.stdout) == (2, "")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("")
    return path


async def test_where_nothing_can_be_written_it_says_so(
    house: House, shell: Shell, file: Path
) -> None:
    found = await shell.run("dead", "report", "-o", str(file / "below"))

    assert found.exit_code == 2
    assert found.stderr


async def test_no_text_is_more_than_a_text(house: House, shell: Shell) -> None:
    nasty = "a | b\n| c |\n```\n# h <script>x</script> [l](http://e) ![i](//e) \x1b[31m &amp; **b**"
    task = await died(house, nasty)
    await house.queue.resolve(task, "modify_and_retry", payload={"a": nasty}, note=nasty)

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
def test_what_markdown_would_read_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
