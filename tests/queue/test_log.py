"""Log lines: fields, secrets, and the application's own logging."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rqueue import log


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the fields that earlier commands of this process have set."""
    monkeypatch.setattr(log, "FACTS", {})


@contextmanager
def bare() -> Iterator[logging.Logger]:
    """Resets the root logger during the test."""
    root, ours = logging.getLogger(), logging.getLogger("rqueue")
    before, levels = root.handlers[:], (root.level, ours.level)
    root.handlers[:] = []
    try:
        yield root
    finally:
        root.handlers[:] = before
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


def record(event: str, /, **fields: object) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "rqueue.worker", "levelno": 30, "levelname": "WARNING", "msg": event, **fields}
    )


def test_a_line_is_one_json_object_with_its_fields() -> None:
    line = log.JsonFormatter().format(
        record("task failed", task="task_1", attempt=2, reason="a\nb")
    )

    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "warning", "event": "task failed", "logger": "rqueue.worker",
        "task": "task_1", "attempt": 2, "reason": "a\nb",
    }  # fmt: skip


def test_a_field_cannot_replace_the_event() -> None:
    found = json.loads(log.JsonFormatter().format(record("task failed", event="other", level="x")))

    assert (found["event"], found["level"]) == ("task failed", "warning")


def test_a_text_line_shows_fields_and_cannot_control_the_terminal() -> None:
    line = log.TextFormatter(coloured=False).format(record("task \x1b[2J", why="two words", n=1.5))

    assert "\x1b" not in line
    assert line.endswith('warning worker: task \\x1b[2J  why="two words"  n=1.5')


def test_only_a_terminal_gets_colours() -> None:
    assert "\x1b[33m" in log.TextFormatter(coloured=True).format(record("x"))
    assert "\x1b" not in log.TextFormatter(coloured=False).format(record("x"))


@pytest.mark.parametrize("formatter", [log.JsonFormatter(), log.TextFormatter(coloured=False)])
@pytest.mark.parametrize(
    "url",
    [
        "redis://:hush@h:1",
        "rediss://me:hush@h",
        "redis://me:hu:sh@h/0",
        "redis+sentinel://a:hush@b",
    ],
)
def test_no_line_shows_the_password_of_a_url(formatter: logging.Formatter, url: str) -> None:
    for line in (formatter.format(record(f"at {url}")), formatter.format(record("x", url=url))):
        assert "hush" not in line
        assert "hu:sh" not in line
        assert "***@" in line


def test_a_traceback_is_a_field_of_limited_size() -> None:
    try:
        raise ValueError("x" * 100_000)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)

    found = json.loads(log.JsonFormatter().format(record("failed", exc_info=info)))

    assert len(found["exception"]) == log.MAX_TRACE


@pytest.mark.parametrize(("style", "is_json"), [("auto", True), ("json", True), ("human", False)])
def test_outside_a_terminal_lines_are_json_by_default(
    monkeypatch: pytest.MonkeyPatch, style: log.Style, *, is_json: bool
) -> None:
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)

    with bare():
        log.set_up(style)
        logging.getLogger("rqueue.worker").info("this")
        logging.getLogger("rqueue.worker").debug("not this")

    line = err.getvalue()
    assert line.count("\n") == 1
    assert line.startswith("{") == is_json


def test_debug_lines_are_written_for_rqueue_only(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr("sys.stderr", err)

    with bare():
        log.set_up("json", "debug")
        logging.getLogger("rqueue.worker").debug("ours")
        logging.getLogger("other").debug("theirs")

    assert [json.loads(line)["event"] for line in err.getvalue().splitlines()] == ["ours"]


def test_the_logging_of_the_application_is_kept() -> None:
    own = logging.StreamHandler(io.StringIO())
    with bare() as root:
        root.addHandler(own)
        root.setLevel("ERROR")

        log.set_up("json", "warning")

        assert (root.handlers, root.level) == ([own], logging.ERROR)
        assert logging.getLogger("rqueue").level == logging.WARNING
