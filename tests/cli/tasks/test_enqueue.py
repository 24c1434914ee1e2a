"""`rqueue enqueue`: tasks from options and from documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from rqueue import State
from tests.cli.conftest import Shell
from tests.harness import Harness

TWO_IN_YAML = """\
# two tasks
type: resize
payload: {path: a.png}
priority: 10
---
task:
  type: code
  title: of form B
"""
ONE = '{"type": "resize", "payload": {"path": "a.png"}, "priority": 10}'
OTHER = '{"task": {"type": "code", "title": "of form B"}}'


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give the task's type, or --file"),
        (("resize", "{oops"), "payload: is not JSON"),
        (("resize", "--set", "priority"), "use FIELD=JSON"),
        (("resize", "--form", "b"), "--form needs --file"),
        (("resize", "--file", "-"), "the documents contain all fields"),
        (("resize", "--priority", "high"), "'high' is not a valid float"),
        (("resize", "--priority", "101"), "priority: "),
        (("resize", "--expires", "soon"), "expires: is a number of seconds"),
        (("resize", "--expires", "0"), "expires: is more than 0 seconds"),
        (("resize", "--expires", "5", "--deadline", "2030-01-31T12:00:00Z"), "give one of them"),
        (("re size",), "type: is a name"),
        (("resize", "--set", "nonsense=1"), "nonsense: is not a known field"),
    ],
)
async def test_invalid_input_is_exit_2_and_nothing_is_sent(
    harness: Harness, shell: Shell, words: tuple[str, ...], complaint: str
) -> None:
    result = await shell.run("enqueue", *words, given="type: x")

    assert result.exit_code == 2
    assert complaint in result.stderr
    assert await harness.dump() == {}


async def test_options_become_fields_of_the_task(harness: Harness, shell: Shell) -> None:
    (parent,) = await shell.lines("enqueue", "first")

    (id,) = await shell.lines(
        "enqueue", "resize", '{"path": "ä.png"}', "--priority", "30", "--tag", "a", "--tag", "b",
        "--max-attempts", "7", "--timeout", "60", "--capability", "gpu", "--depends-on", parent,
        "--external-id", "mine", "--set", "created_by=human:me", "--set", "max_cost_usd=1.5",
        "--deadline", "2040-01-31T12:00:00Z",
    )  # fmt: skip

    task = await harness.task("mine")
    assert (task.id, task.payload, task.state) == (id, {"path": "ä.png"}, State.PENDING)
    spec = task.spec
    assert (spec.priority, spec.tags, spec.max_attempts, spec.timeout_sec) == (
        30,
        ("a", "b"),
        7,
        60,
    )
    assert (spec.created_by, spec.max_cost_usd) == ("human:me", 1.5)
    assert task.blocked_by == (parent,)


async def test_a_payload_may_come_from_standard_input(harness: Harness, shell: Shell) -> None:
    (id,) = await shell.lines("enqueue", "resize", "-", given='["a", 1]')

    assert (await harness.task(id)).payload == ["a", 1]


async def test_the_same_idempotency_key_is_the_same_task(harness: Harness, shell: Shell) -> None:
    words = ("enqueue", "resize", "--idempotency-key", "k", "--delay", "60")
    (first,) = await shell.lines(*words)

    again = await shell.run(*words)

    assert (again.exit_code, again.stdout) == (0, f"{first}\n")
    assert again.stderr == f"rqueue: {first} existed already\n"
    assert await shell.json(*words) == [{"id": first, "created": False}]


@pytest.mark.parametrize(
    "text",
    [
        TWO_IN_YAML,
        f"- {ONE}\n- {OTHER}\n",
        f"[{ONE}, {OTHER}]",
        f"{ONE}\n\n{OTHER}\n",
    ],
    ids=["yaml documents", "yaml list", "json list", "json lines"],
)
async def test_a_file_may_have_many_documents(
    harness: Harness, shell: Shell, empty_dir: Path, text: str
) -> None:
    (empty_dir / "documents").write_text(text)

    first, second = await shell.lines("enqueue", "--file", "documents")

    one, two = await harness.task(first), await harness.task(second)
    assert (one.type, one.payload, one.spec.priority) == ("resize", {"path": "a.png"}, 10)
    assert (two.type, two.spec.title) == ("code", "of form B")


async def test_documents_come_from_standard_input_in_a_form(harness: Harness, shell: Shell) -> None:
    (answer,) = await shell.json(
        "enqueue", "--file", "-", "--form", "a", given='{"type": "code", "priority": 10}'
    )

    assert (await harness.task(answer["id"])).spec.priority == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("type: a\n---\ntype: b c\n", "document 2: type: is a name"),
        ("type: a\n---\n[1]\n", "document 2: is not a mapping"),
        ('{"type":"a"}\n{"type":\n', "line 2: is not JSON"),
        ("{", "document: is not JSON: see line 1, column 2"),
        ('{"type":"a",\n "title":"b",}\n', "document: is not JSON: see line 2, column 14"),
        ("# two\n---\ntype: a\n---\ntype: b\n\ttitle: c\n", "YAML: see line 6, column 1"),
        ("a: &x 1\nb: *x", "uses YAML aliases"),
    ],
)
async def test_one_invalid_document_stops_all(
    harness: Harness, shell: Shell, text: str, complaint: str
) -> None:
    result = await shell.run("enqueue", "--file", "-", given=text)

    assert result.exit_code == 2
    assert complaint in result.stderr
    assert await harness.dump() == {}


async def test_a_thousand_documents_keep_their_order(harness: Harness, shell: Shell) -> None:
    text = "".join(f'{{"type": "code", "payload": {n}}}\n' for n in range(1100))

    ids = await shell.lines("enqueue", "--file", "-", given=text)

    assert len(set(ids)) == 1100
    assert [(await harness.task(ids[at])).payload for at in (0, 499, 500, 1099)] == [
        0,
        499,
        500,
        1099,
    ]


@pytest.mark.parametrize("word", ["3600", "PT1H", "2030-01-31T12:00:00Z"])
async def test_a_task_may_expire(harness: Harness, shell: Shell, word: str) -> None:
    (line,) = await shell.lines("enqueue", "resize", "--expires", word)

    spec = (await harness.queue.get(line)).spec
    assert (spec.on_deadline, spec.deadline is not None) == ("cancel", True)
