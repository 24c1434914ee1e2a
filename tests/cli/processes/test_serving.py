"""`rqueue worker`: its queue, its options, and the queues of `--queue`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from rqueue import Queue
from rqueue.cli.main import cli
from rqueue.cli.processes import serving
from rqueue.cli.processes.serving import load, served
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
def shop(empty_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the working directory, removed from sys.modules after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("some_app", "some_broken_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (empty_dir / "some_app.py").write_text(APP)
    (empty_dir / "some_broken_app.py").write_text(f"{APP}\n''.nothing\n")
    return empty_dir


@pytest.mark.parametrize("options", [[], ["--reload"], ["--processes", "2"]])
@pytest.mark.parametrize("app", ["", ":queue", "..x:queue", ".", "some_app.:queue"])
def test_an_invalid_module_name_is_a_config_error(shop: Path, app: str, options: list[str]) -> None:
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
def test_a_missing_module_or_queue_is_a_config_error(shop: Path, app: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        load(app)


def test_an_error_of_the_modules_own_code_is_raised_unchanged(shop: Path) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        load("some_broken_app:queue")


def test_the_default_attribute_of_the_module_is_queue(shop: Path) -> None:
    assert load("some_app") is load("some_app:") is load("some_app:queue")


def test_options_are_passed_to_the_worker(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_an_invalid_grace_is_wrong_usage(shop: Path, grace: str) -> None:
    result = CliRunner().invoke(cli, ["worker", "some_app:queue", "--grace", grace])

    assert result.exit_code == 2
    assert "--grace" in result.stderr


@pytest.mark.parametrize("options", [[], ["--queue", "shop", "--queue", "other"]])
def test_a_type_without_a_handler_is_a_config_error(shop: Path, options: list[str]) -> None:
    words = ["worker", "some_app:queue", "--type", "pack", "--type", "nope", *options]

    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 5
    assert "'nope' has no handler in queue shop, whose types are pack" in result.stderr


URL = "redis://127.0.0.1:1"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An application with a queue, and a second queue with its own handlers."""
    made = ModuleType("some_shop")
    made.queue = Queue("shop", url=URL, lease_sec=7)  # type: ignore[attr-defined]
    made.mails = Queue("mails", url=URL)  # type: ignore[attr-defined]
    made.queue.task("pack")(pack)
    made.mails.task("send")(pack)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def pack() -> None:
    """A handler."""


def test_without_names_the_applications_own_queue_is_served(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, [], 5)

    assert (found.queues, found.shared_slots.size) == ([module.queue], 5)


def test_a_name_alone_is_served_by_the_applications_handlers(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, ["urgent", "shop"], 5)

    urgent = found.queues[0]
    assert found.names == "urgent,shop"
    assert urgent._internals.registry is module.queue._internals.registry
    assert urgent.settings.lease_sec == 7
    assert urgent._internals.runtime.connection is module.queue._internals.runtime.connection
    assert found.queues[1] is module.queue
    assert [share.weight for share in found.shared_slots.shares] == [0, 0]


def test_a_queue_with_its_own_handlers_keeps_them(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, ["mails:2", "shop:1"], 5)

    assert found.queues == [module.mails, module.queue]
    assert [share.weight for share in found.shared_slots.shares] == [2, 1]


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        (["a:5", "b"], "give all of them a weight"),
        (["a:0"], "from 1 to 1000"),
        (["a:x"], "from 1 to 1000"),
        (["a:1001"], "from 1 to 1000"),
        (["a", "a"], "twice"),
        (["a b"], "letters, digits"),
        ([""], "letters, digits"),
    ],
)
def test_invalid_names_and_weights_are_a_config_error(
    module: ModuleType, wanted: list[str], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule):
        served(module.queue, module.__name__, wanted, 5)
