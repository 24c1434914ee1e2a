"""Rules of breakers, limits and turns are read again when the file has changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rqueue.settings import live
from rqueue.settings.live import LiveSettings
from rqueue.settings.load import Settings


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live, "CHECK_SEC", 0.0)
    for variable in [name for name in os.environ if name.startswith("RQUEUE_")]:
        monkeypatch.delenv(variable)


def written(threshold: int, *, of: str = "defaults: {failureThreshold: %d}") -> None:
    """Writes the file, newer than the one before."""
    Path("rqueue.yaml").write_text("breakers:\n  " + of % threshold + "\n" + "#" * threshold)


def threshold(found: LiveSettings, type: str = "code") -> int:
    return found.breakers.of(type).failure_threshold


def test_a_changed_file_changes_the_rules() -> None:
    written(3)
    found = LiveSettings(Settings.load("mail"))
    assert threshold(found) == 3

    written(7)

    assert threshold(found) == 7


def test_a_created_or_deleted_file_is_detected() -> None:
    found = LiveSettings(Settings.load("mail"))

    written(2, of="overrides: {code: {failure_threshold: %d}}")
    assert (threshold(found), threshold(found, "review")) == (2, 5)

    Path("rqueue.yaml").unlink()
    assert not found.breakers.of("code").enabled


def test_an_invalid_file_changes_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    written(3)
    found = LiveSettings(Settings.load("mail"))

    for text in ("breakers: {defaults: {failureThreshold: -1}}", "breakers: [", "breakers: 7"):
        Path("rqueue.yaml").write_text(text)
        assert threshold(found) == 3

    assert [record.getMessage() for record in caplog.records] == ["settings not changed"] * 3


def test_a_changed_file_changes_limits_and_turns() -> None:
    found = LiveSettings(Settings.load("mail"))
    before = found.rules
    assert found.rules is before

    Path("rqueue.yaml").write_text(
        "limits: [{key: '*', at_once: 2}]\nturns: {weights: {tenant-7: 3}}\n"
    )
    after = found.rules
    assert [limit.at_once for limit in after.limits] == [2]
    assert after.turns.weights == {"tenant-7": 3}
    assert found.rules is after

    for wrong in ("limits: [{}]", "limits: [{rate: 1}, {rate: 2}]", "turns: {weights: {a: 0}}"):
        Path("rqueue.yaml").write_text(wrong)
        assert found.rules is after

    Path("rqueue.yaml").write_text("# nothing")
    assert found.rules == before


def test_settings_of_the_named_queue_override_common_ones() -> None:
    Path("rqueue.yaml").write_text(
        "breakers: {defaults: {failure_threshold: 3}}\n"
        "queues: {mail: {breakers: {defaults: {failure_threshold: 9}}}}\n"
    )

    assert threshold(LiveSettings(Settings.load("mail"))) == 9
    assert threshold(LiveSettings(Settings.load("other"))) == 3


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_the_file_does_not_override_arguments_or_variables(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "environment":
        monkeypatch.setenv("RQUEUE_BREAKERS", '{"defaults": {"failure_threshold": 4}}')
        settings = Settings.load("mail")
    else:
        settings = Settings.load("mail", breakers={"defaults": {"failure_threshold": 4}})
    found = LiveSettings(settings)

    written(9)

    assert threshold(found) == 4
