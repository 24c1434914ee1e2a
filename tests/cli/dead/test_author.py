"""The author of a decision: by default the user of the operating system."""

from __future__ import annotations

import pwd
from types import SimpleNamespace

import pytest

from rqueue.cli import session
from rqueue.cli.session import os_user
from rqueue.task.fields import PRINCIPAL
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died, reviews, text_of
from tests.harness import Harness


@pytest.fixture(autouse=True)
def user_ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the operating system is ada."""
    set_user(monkeypatch, "ada")


def set_user(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    def entry(uid: int) -> pwd.struct_passwd:
        if name is None:
            raise KeyError(uid)
        return pwd.struct_passwd((name, "x", uid, 0, "", "/", "/bin/sh"))

    monkeypatch.setattr(session, "pwd", SimpleNamespace(getpwuid=entry))
    monkeypatch.setattr(session, "os", SimpleNamespace(getuid=lambda: 1007))


@pytest.mark.parametrize(
    "words",
    [("dead", "retry", "TASK"), ("dead", "delete", "--all", "--yes"), ("purge", "--yes"),
     ("dead", "edit", "TASK", "--payload", '{"n": 2}'),
     ("cancel", "--status", "dead_lettered")],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
async def test_the_author_of_a_decision_is_the_os_user_by_default(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await died(harness)

    await shell.lines(*(task if word == "TASK" else word for word in words))

    assert [review.by for review in await reviews(harness)] == ["human:ada"]
    (path,) = await shell.lines("dead", "report")
    assert "| human:ada |" in text_of(path)


async def test_a_configured_author_comes_before_the_os_user(harness: Harness, shell: Shell) -> None:
    first, second = await died(harness), await died(harness)
    shell.env["RQUEUE_PRINCIPAL"] = "service:support"

    await shell.lines("dead", "escalate", first)
    await shell.lines("dead", "escalate", second, "--by", "human:grace")

    assert [review.by for review in await reviews(harness)] == ["service:support", "human:grace"]


async def test_the_os_user_is_not_the_principal_that_creates_tasks(
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
def test_every_os_user_becomes_a_valid_principal(
    monkeypatch: pytest.MonkeyPatch, name: str | None, who: str
) -> None:
    set_user(monkeypatch, name)

    assert os_user() == who
    assert PRINCIPAL.fullmatch(who)
