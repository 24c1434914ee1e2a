"""The PostgreSQL server that `rqueue up` uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rqueue import embedded
from rqueue.cli.processes.up_process import choose_archive
from rqueue.embedded import postgres
from rqueue.errors import ConfigError
from rqueue.settings.load import Settings

DATA = Path(".rqueue")


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty directory, and a queue whose server is embedded."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("RQUEUE_")]:
        monkeypatch.delenv(variable)
    # Set here, so that monkeypatch restores it after the test.
    monkeypatch.setenv("RQUEUE_ARCHIVE", "")
    monkeypatch.setenv("RQUEUE_EMBEDDED", "1")
    yield
    embedded.stop_postgres(DATA)


def test_the_embedded_postgres_is_started_and_turns_the_archive_on() -> None:
    assert Settings.load("mail").archive == "none"

    choose_archive(wanted=True)

    with psycopg.connect(embedded.start_postgres(DATA)) as line:
        assert line.execute("SELECT current_database()").fetchone() == ("rqueue",)
    embedded.stop_postgres(DATA)
    settings = Settings.load("mail")
    assert (settings.archive, settings.archive_server()) == ("postgres", DATA)
    assert Settings.load("mail", url="redis://elsewhere").archive == "none"


def test_an_existing_embedded_postgres_is_not_used_if_unwanted() -> None:
    postgres.home(DATA).mkdir(parents=True)

    choose_archive(wanted=False)

    assert Settings.load("mail").archive == "none"


def test_a_configured_postgres_is_used_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_POSTGRES_URL", "postgresql://elsewhere/db")

    choose_archive(wanted=True)

    assert not DATA.exists()
    assert Settings.load("mail").archive_server() == "postgresql://elsewhere/db"


def test_a_queue_on_a_configured_server_gets_no_embedded_postgres(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RQUEUE_EMBEDDED", "")
    monkeypatch.setenv("RQUEUE_REDIS_URL", "redis://elsewhere")

    choose_archive(wanted=True)

    assert not DATA.exists()


def test_no_postgres_is_started_if_the_file_has_archive_none() -> None:
    Path("rqueue.yaml").write_text("archive: none\n")

    choose_archive(wanted=True)

    assert not DATA.exists()


def test_without_the_package_the_archive_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PACKAGE", "no_such_package")

    choose_archive(wanted=True)

    assert not DATA.exists()
    assert Settings.load("mail").archive == "none"


def test_a_postgres_that_cannot_be_created_is_noted_and_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(postgres, "NAME", "pg_reserved")

    choose_archive(wanted=True)

    assert "no archive: " in capsys.readouterr().err
    assert Settings.load("mail").archive == "none"


def test_an_existing_postgres_that_cannot_start_is_an_error() -> None:
    data = postgres.home(DATA) / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("12\n")

    with pytest.raises(ConfigError, match="needs PostgreSQL 12"):
        choose_archive(wanted=True)
