"""Which changes restart a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from rqueue.process import reloader

DEEP = "x = " + "-" * 200_000 + "1\n"


@pytest.mark.parametrize("text", ["x = (", "x = '\0'", DEEP])
def test_a_file_with_a_syntax_error_causes_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = tmp_path / "app.py"
    path.write_text(text)

    assert reloader.runs([str(path)]) is False

    (line,) = caplog.records
    assert line.message.endswith("waiting for the next change")
    assert vars(line)["file"] == str(path)


@pytest.mark.parametrize("error", [RecursionError, MemoryError, OverflowError, SystemError])
def test_any_compile_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> None:
        raise error

    path = tmp_path / "app.py"
    path.write_text("x = 1")
    monkeypatch.setattr(reloader, "compile", fail, raising=False)

    assert reloader.runs([str(path)]) is False

    assert [vars(line)["error"] for line in caplog.records] == [error.__name__]


def test_a_removed_file_is_a_valid_change(tmp_path: Path) -> None:
    assert reloader.runs([str(tmp_path / "gone.py")])
