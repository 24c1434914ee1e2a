"""`rqueue worker`: where its queue stands, and what its options become."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rqueue.cli.main import cli
from rqueue.cli.processes import serving
from rqueue.cli.processes.serving import load
from rqueue.errors import ConfigError
from rqueue.process.worker_process import WorkerProcess

APP = """
from rqueue import Queue

queue = Queue("shop", url="redis://127.0.0.1:1")
other = 7

@queue.task("pack")
def pack() -> None: ...
"""


@pytest.fixture
def shop(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the working directory, forgotten after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("some_app", "some_broken_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (nowhere / "some_app.py").write_text(APP)
    (nowhere / "some_broken_app.py").write_text(f"{APP}\n''.nothing\n")
    return nowhere


@pytest.mark.parametrize("options", [[], ["--reload"], ["--processes", "2"]])
@pytest.mark.parametrize("app", ["", ":queue", "..x:queue", ".", "some_app.:queue"])
def test_what_names_no_module_is_a_wrong_setting(shop: Path, app: str, options: list[str]) -> None:
    result = CliRunner().invoke(cli, ["worker", app, *options])

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 5
    assert "names no module" in result.stderr


@pytest.mark.parametrize(
    ("app", "rule"),
    [
        ("some_where:queue", "there is no module some_where"),
        ("some_app.sub:queue", "there is no module some_app.sub"),
        ("some_app:nothing", "some_app has no nothing"),
        ("some_app:other", "is a int, not a Queue"),
    ],
)
def test_what_is_not_there_is_told(shop: Path, app: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        load(app)


def test_what_a_modules_own_code_raises_is_not_told_as_a_missing_queue(shop: Path) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        load("some_broken_app:queue")


def test_a_queue_is_called_queue_unless_another_name_is_given(shop: Path) -> None:
    assert load("some_app") is load("some_app:") is load("some_app:queue")


def test_options_become_the_worker(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WorkerProcess] = []

    def serve(_: Any, worker_process: WorkerProcess) -> None:
        made.append(worker_process)

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(serving, "run", lambda _: None)
    words = ["--name", "w7", "--concurrency", "3", "--grace", "4", "--no-scheduler"]
    limits = ["--max-rss", "200", "--max-tasks", "9"]

    result = CliRunner().invoke(cli, ["worker", "some_app:queue", *words, *limits])

    assert result.exit_code == 0, result.output
    (worker_process,) = made
    (worker,) = worker_process.workers
    assert worker.name == "w7"
    assert (worker_process.limits.max_rss_mb, worker_process.limits.max_tasks) == (200, 9)
    assert (worker_process.slots, worker_process.grace_sec, len(worker_process.schedulers)) == (
        3,
        4,
        0,
    )


@pytest.mark.parametrize("grace", ["nan", "inf", "-1"])
def test_a_grace_that_cannot_be_waited_for_is_wrong_usage(shop: Path, grace: str) -> None:
    result = CliRunner().invoke(cli, ["worker", "some_app:queue", "--grace", grace])

    assert result.exit_code == 2
    assert "--grace" in result.stderr


@pytest.mark.parametrize("options", [[], ["--queue", "shop", "--queue", "other"]])
def test_a_type_without_a_handler_is_a_wrong_setting(shop: Path, options: list[str]) -> None:
    words = ["worker", "some_app:queue", "--type", "pack", "--type", "nope", *options]

    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 5
    assert "'nope' has no handler in queue shop, whose types are pack" in result.stderr
