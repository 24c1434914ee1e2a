"""The queue that a command uses, and its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Shell

SECRET = "s3cr3t"
TWO = """\
url: redis://user:s3cr3t@common:6379/1
lease_sec: 20
queues:
  a: {lease_sec: 10}
  b:
"""


async def settings(shell: Shell, *words: str) -> dict[str, tuple[object, str]]:
    """Every setting's value and source."""
    found = await shell.json("config", "show", *words)
    return {row["setting"]: (row["value"], row["from"]) for row in found}


async def test_without_a_queue_the_error_names_the_settings(unset_shell: Shell) -> None:
    result = await unset_shell.run("counts")

    assert result.exit_code == 5
    assert result.stderr == (
        "rqueue: queue: pass --queue NAME, set RQUEUE_QUEUE, or name one queue in rqueue.yaml\n"
    )


async def test_several_queues_in_the_file_give_no_default(
    unset_shell: Shell, empty_dir: Path
) -> None:
    (empty_dir / "rqueue.yaml").write_text(TWO)

    result = await unset_shell.run("counts")

    assert result.exit_code == 5
    assert "rqueue.yaml has several (a, b): pass --queue NAME" in result.stderr


async def test_without_a_server_the_error_names_the_settings(unset_shell: Shell) -> None:
    result = await unset_shell.run("counts", "--queue", "a")

    assert result.exit_code == 5
    assert "set RQUEUE_REDIS_URL" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("queues: [", "rqueue.yaml: cannot be read as YAML"),
        ("queues: [a]", "rqueue.yaml: queues: is a mapping"),
    ],
)
@pytest.mark.parametrize("words", [("config", "check"), ("counts",), ("ping",)], ids=" ".join)
async def test_an_invalid_file_is_exit_5(
    unset_shell: Shell, empty_dir: Path, text: str, complaint: str, *, words: tuple[str, ...]
) -> None:
    (empty_dir / "rqueue.yaml").write_text(text)

    result = await unset_shell.run(*words)

    assert result.exit_code == 5
    assert complaint in result.stderr


async def test_the_only_queue_of_the_file_is_the_default(
    unset_shell: Shell, empty_dir: Path
) -> None:
    (empty_dir / "rqueue.yaml").write_text("queues:\n  only:\n    url: redis://h\n")

    found = await settings(unset_shell)

    assert found["name"] == ("only", "rqueue.yaml")
    assert found["url"] == ("redis://h", "rqueue.yaml: queues.only")


async def test_each_setting_is_shown_with_its_source(unset_shell: Shell, empty_dir: Path) -> None:
    (empty_dir / "rqueue.yaml").write_text(TWO)
    unset_shell.env = {"RQUEUE_CLAIM_WAIT_SEC": "3", "RQUEUE_QUEUE": "a"}

    found = await settings(unset_shell)

    assert found["name"] == ("a", "RQUEUE_QUEUE")
    assert found["url"] == ("redis://user:***@common:6379/1", "rqueue.yaml")
    assert found["lease_sec"] == (10, "rqueue.yaml: queues.a")
    assert found["claim_wait_sec"] == (3, "RQUEUE_CLAIM_WAIT_SEC")
    assert found["scale"] == ("native", "profile factory")
    assert found["max_lanes"] == (512, "default")
    of_b = await settings(unset_shell, "--queue", "b", "--url", "unix:///x.sock")
    assert of_b["name"] == ("b", "--queue")
    assert of_b["lease_sec"] == (20, "rqueue.yaml")
    assert of_b["url"] == ("unix:///x.sock", "--url")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@host:6379",
        f"redis://:{SECRET}@host",
        f"redis://:a@{SECRET}/x@host",
        f"rediss://host/2?password={SECRET}",
        f"unix:///x.sock?username=u&password={SECRET}&db=2",
    ],
)
async def test_no_password_is_shown(unset_shell: Shell, url: str) -> None:
    result = await unset_shell.run("config", "show", "--queue", "a", "--url", url)

    assert result.exit_code == 0
    assert SECRET not in result.output
    assert "***" in result.output


async def test_no_password_of_a_judge_is_shown(unset_shell: Shell, empty_dir: Path) -> None:
    (empty_dir / "rqueue.yaml").write_text(f"judge_url: http://ann:{SECRET}@host/judge\n")

    result = await unset_shell.run("config", "show", "--queue", "a")

    assert SECRET not in result.output
    assert "http://ann:***@host/judge" in result.output


async def test_valid_settings_pass_the_check(unset_shell: Shell, empty_dir: Path) -> None:
    (empty_dir / "rqueue.yaml").write_text(TWO)

    assert await unset_shell.lines("config", "check") == ["a: ok", "b: ok"]
    assert await unset_shell.lines("config", "check", "--queue", "a") == ["a: ok"]


async def test_every_invalid_setting_is_named(unset_shell: Shell, empty_dir: Path) -> None:
    (empty_dir / "rqueue.yaml").write_text(
        "url: redis://h\nqueues:\n  a: {lease_sec: -1}\n  b: {}\n  c: {leese_sec: 1}\n"
        "  d: {url: 'http://h'}\n"
    )

    result = await unset_shell.run("config", "check")

    assert result.exit_code == 5
    assert result.stdout.splitlines() == ["a: wrong", "b: ok", "c: wrong", "d: wrong"]
    assert [line.split(": ")[1:3] for line in result.stderr.splitlines()] == [
        ["a", "lease_sec"],
        ["c", "leese_sec"],
        ["d", "url"],
    ]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
async def test_a_completion_script_is_printed_for_each_shell(
    unset_shell: Shell, shell_name: str
) -> None:
    text = "\n".join(await unset_shell.lines("completion", shell_name))

    assert "_RQUEUE_COMPLETE" in text
    assert (await unset_shell.run("completion", "tcsh")).exit_code == 2
