"""Who decided is known also where nobody said so: whoever is at the terminal."""

from __future__ import annotations

import pwd
from types import SimpleNamespace

import pytest

from rqueue.cli.dead import reviewer
from rqueue.cli.dead.reviewer import os_user
from rqueue.task.fields import PRINCIPAL
from tests.cli.conftest import Shell
from tests.cli.test_dead import died
from tests.cli.test_dead_report import text_of
from tests.cli.test_dead_resolving import reviews
from tests.harness import Harness


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of this system is ada."""
    named(monkeypatch, "ada")


def named(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    def entry(uid: int) -> pwd.struct_passwd:
        if name is None:
            raise KeyError(uid)
        return pwd.struct_passwd((name, "x", uid, 0, "", "/", "/bin/sh"))

    monkeypatch.setattr(reviewer, "pwd", SimpleNamespace(getpwuid=entry))
    monkeypatch.setattr(reviewer, "os", SimpleNamespace(getuid=lambda: 1007))


@pytest.mark.parametrize(
    "words",
    [("dead", "retry", "TASK"), ("dead", "delete", "--all", "--yes"), ("purge", "--yes"),
     ("dead", "edit", "TASK", "--payload", '{"n": 2}'),
     ("cancel", "--status", "dead_lettered")],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
async def test_a_decision_at_a_terminal_is_that_of_its_user(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await died(harness)

    await shell.lines(*(task if word == "TASK" else word for word in words))

    assert [review.by for review in await reviews(harness)] == ["human:ada"]
    (path,) = await shell.lines("dead", "report")
    assert "| human:ada |" in text_of(path)


async def test_who_was_said_to_decide_comes_first(harness: Harness, shell: Shell) -> None:
    first, second = await died(harness), await died(harness)
    shell.env["RQUEUE_PRINCIPAL"] = "service:desk"

    await shell.lines("dead", "escalate", first)
    await shell.lines("dead", "escalate", second, "--by", "human:grace")

    assert [review.by for review in await reviews(harness)] == ["service:desk", "human:grace"]


async def test_it_is_no_principal_to_roles_and_creates_nothing(
    harness: Harness, shell: Shell
) -> None:
    await harness.queue.roles.set("human:ada", "agent")

    (task,) = await shell.json("enqueue", "code")
    await shell.lines("role", "set", "agent:coder", "agent")

    assert (await harness.task(task["id"])).spec.created_by is None
    assert (await harness.queue.roles.list())["agent:coder"] == "agent"


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("ada", "human:ada"),
        ("ada.lovelace-1", "human:ada.lovelace-1"),
        ("CORP\\ada l", "human:CORP-ada-l"),
        ("_www", "human:www"),
        ("ada$", "human:ada"),
        ("\u00e4da", "human:da"),
        ("\u00e4", "human:uid-1007"),
        ("x" * 300, f"human:{'x' * 128}"),
        (None, "human:uid-1007"),
    ],
)
def test_any_user_is_a_principal(
    monkeypatch: pytest.MonkeyPatch, name: str | None, who: str
) -> None:
    named(monkeypatch, name)

    assert os_user() == who
    assert PRINCIPAL.fullmatch(who)
