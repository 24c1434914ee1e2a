"""Settings: their sources, which source wins, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.settings.load import Settings
from rqueue.task.attempt.retry import AUTOMECHANICA, FACTORY, REFERENCE, RetryPolicy


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("RQUEUE_")]:
        monkeypatch.delenv(variable)


def test_the_defaults_are_those_of_the_profile_factory() -> None:
    settings = Settings.load("mail")

    assert (settings.name, settings.profile, settings.scale) == ("mail", "factory", "native")
    assert settings.retry == FACTORY
    assert settings.lease_sec == 30
    assert settings.priority_boost_per_minute == 0.1


def test_a_profile_sets_what_is_not_given() -> None:
    settings = Settings.load("mail", profile="reference")

    assert (settings.scale, settings.retry, settings.dedupe) == ("1-10", REFERENCE, "content")
    assert settings.priority_boost_per_minute == 0
    assert Settings.load("m", profile="automechanica").retry == AUTOMECHANICA
    assert Settings.load("m", profile="automechanica").spawn_policy == "same_agent"
    assert Settings.load("m", profile="reference", dedupe="key").dedupe == "key"
    assert Settings(name="m", profile="reference").scale == "1-10"


def test_arguments_override_the_environment_which_overrides_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("rqueue.yaml").write_text(
        "lease_sec: 11\nclaim_wait_sec: 1\ndelivery_sec: 1\nmax_lanes: 3\nhttp:\n  port: 80\n"
        "queues:\n  mail:\n    claim_wait_sec: 2\n    delivery_sec: 2\n    lease_sec: 12\n"
    )
    monkeypatch.setenv("RQUEUE_DELIVERY_SEC", "3")
    monkeypatch.setenv("RQUEUE_LEASE_SEC", "13")

    settings = Settings.load("mail", lease_sec=14, claim_wait_sec=None)

    assert settings.lease_sec == 14
    assert settings.delivery_sec == 3
    assert settings.claim_wait_sec == 2
    assert settings.max_lanes == 3
    assert Settings.load("other").claim_wait_sec == 1


def test_a_retry_policy_comes_from_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rqueue.yaml").write_text("retry: {strategy: fixed, initial_delay_sec: 7}\n")
    from_file = Settings.load("mail").retry
    monkeypatch.setenv("RQUEUE_RETRY", '{"strategy": "linear"}')
    from_environment = Settings.load("mail").retry
    argument = Settings.load("mail", retry=RetryPolicy.immediate()).retry

    assert from_file is not None
    assert (from_file.strategy, from_file.initial_delay_sec) == ("fixed", 7)
    assert from_environment is not None
    assert from_environment.strategy == "linear"
    assert argument == RetryPolicy.immediate()


def test_the_environment_sets_the_retention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RQUEUE_RETENTION", '{"completed_days": 8}')

    assert Settings.load("mail").retention.completed_days == 8


def test_the_server_is_the_url_or_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load("mail", url="redis://a").server() == "redis://a"
    assert Settings.load("mail", embedded=True).server() == Path(".rqueue")

    monkeypatch.setenv("RQUEUE_REDIS_URL", "redis://b")
    assert Settings.load("mail").server() == "redis://b"
    assert Settings.load("mail", embedded=True).server() == Path(".rqueue")
    monkeypatch.delenv("RQUEUE_REDIS_URL")

    monkeypatch.setenv("RQUEUE_EMBEDDED", "1")
    assert Settings.load("mail").server() == Path(".rqueue")
    assert Settings.load("mail", url="redis://a").server() == "redis://a"


def test_an_argument_overrides_embedded_of_the_file() -> None:
    Path("rqueue.yaml").write_text("url: redis://a\n")

    assert Settings.load("mail", embedded=False).server() == "redis://a"


def test_without_a_server_the_error_names_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"RQUEUE_REDIS_URL.*embedded=True") as caught:
        Settings.load("mail").server()

    assert caught.value.setting == "url"


def test_two_servers_of_one_source_are_refused() -> None:
    with pytest.raises(ConfigError, match="together with url"):
        Settings.load("mail", url="redis://a", embedded=True)


def test_the_archive_is_on_where_there_is_a_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load("mail").archive == "none"
    assert Settings.load("mail", embedded=True).archive == "none"
    assert Settings.load("mail", postgres_url="postgresql://a/b").archive == "postgres"

    Path(".rqueue/postgres").mkdir(parents=True)
    assert Settings.load("mail", embedded=True).archive == "postgres"
    assert Settings.load("mail", embedded=True, archive="none").archive == "none"
    assert Settings.load("mail", embedded=True, data_dir="other").archive == "none"
    assert Settings.load("mail", url="redis://a").archive == "none"
    assert Settings(name="mail", embedded=True, archive=None).archive == "postgres"

    monkeypatch.setenv("RQUEUE_POSTGRES_URL", "postgres://c/d")
    assert Settings.load("mail", url="redis://a").archive == "postgres"


def test_the_archives_server_is_the_url_or_the_directory() -> None:
    url = "postgresql://user:secret@a/b"
    named = Settings.load("mail", embedded=True, postgres_url=url)

    assert named.archive_server() == url
    assert "secret" not in repr(named)
    assert Settings.load("mail", postgres_url=url, archive="none").archive_server() is None
    assert Settings.load("mail").archive_server() is None
    own = Settings.load("mail", embedded=True, archive="postgres")
    assert own.archive_server() == Path(".rqueue")


def test_an_archive_without_a_server_names_the_settings_when_it_is_used() -> None:
    settings = Settings.load("mail", url="redis://a", archive="postgres")

    with pytest.raises(ConfigError, match=r"RQUEUE_POSTGRES_URL.*postgres_url: into") as caught:
        settings.archive_server()

    assert caught.value.setting == "postgres_url"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lease_sec", 0),
        ("lease_sec", float("nan")),
        ("lease_sec", float("inf")),
        ("max_lanes", 0),
        ("max_lanes", 5000),
        ("namespace", "a:b"),
        ("profile", "none"),
        ("scale", "0-5"),
        ("archive", "files"),
        ("postgres_url", "mysql://a"),
        ("postgres_url", "host=a dbname=b"),
        ("max_payload_bytes", 1),
        ("lease_seconds", 1),
    ],
)
def test_a_bad_value_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load("mail", **{setting: value})

    assert caught.value.setting == setting


@pytest.mark.parametrize("name", ["", "{a}", "a b", "-a", "a" * 129, "a\n", "*", "é"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load(name)

    assert caught.value.setting == "name"


def test_settings_from_the_constructor_are_checked() -> None:
    with pytest.raises(ConfigError, match="max_lanes"):
        Settings(name="mail", max_lanes=0)
    with pytest.raises(ConfigError, match="is required"):
        Settings.model_validate({})


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("- a", "rqueue.yaml"),
        ("a: [", "rqueue.yaml"),
        ("queues: 3", "rqueue.yaml: queues"),
        ("queues: {mail: 3}", "rqueue.yaml: queues.mail"),
        ("lease: 3", "lease"),
        ("retry: {initial: 3}", "retry.initial"),
    ],
)
def test_a_bad_file_is_named(text: str, setting: str) -> None:
    Path("rqueue.yaml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        Settings.load("mail")

    assert caught.value.setting == setting


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_RETRY", "{")
    with pytest.raises(ConfigError, match="RQUEUE_RETRY"):
        Settings.load("mail")

    monkeypatch.setenv("RQUEUE_RETRY", "")
    monkeypatch.setenv("RQUEUE_MAX_LANES", "many")
    with pytest.raises(ConfigError, match="max_lanes"):
        Settings.load("mail")


def test_a_password_is_not_shown() -> None:
    settings = Settings.load("mail", url="redis://:hush@a")

    assert "hush" not in repr(settings)


def test_claim_memo_sec_is_at_least_twice_claim_wait_sec() -> None:
    with pytest.raises(ConfigError, match="claim_memo_sec"):
        Settings(name="q", url="redis://h", claim_wait_sec=6, claim_memo_sec=10)


def test_a_delivery_to_a_lost_worker_is_taken_back_before_its_lease_ends() -> None:
    with pytest.raises(ConfigError, match="delivery_sec"):
        Settings(name="q", url="redis://h", lease_sec=5, delivery_sec=2)

    assert Settings(name="q", lease_sec=6, delivery_sec=2).delivery_sec == 2


@pytest.mark.parametrize(
    ("lease_sec", "delivery_sec"), [(30, 2), (6, 2), (2, 2 / 3), (0.1, 0.1 / 3)]
)
def test_a_short_lease_shortens_delivery_sec(lease_sec: float, delivery_sec: float) -> None:
    settings = Settings(name="q", lease_sec=lease_sec)

    assert settings.delivery_sec == delivery_sec
    assert Settings.model_validate(settings.model_dump()) == settings


def test_required_validators_come_from_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rqueue.yaml").write_text(
        "validation: {code: [decision-report]}\ntest_commands: [[make, test], [pytest, '*']]\n"
    )

    assert Settings.load("m").validation == {"code": ("decision-report",)}
    assert Settings.load("m").test_commands == (("make", "test"), ("pytest", "*"))
    monkeypatch.setenv("RQUEUE_VALIDATION", '{"*": ["llm-judge"]}')
    monkeypatch.setenv("RQUEUE_TEST_COMMANDS", '[["tox"]]')
    assert Settings.load("m").validation == {"*": ("llm-judge",)}
    assert Settings.load("m").test_commands == (("tox",),)


def test_the_reference_profile_requires_decision_reports_by_default() -> None:
    assert Settings.load("m", profile="reference").validation == {"*": ("decision-report",)}
    assert Settings.load("m", profile="reference", validation={}).validation == {}
    assert Settings.load("m").validation == {}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"validation": {"code": ["regex"]}}, "validation.code: regex can be required by a task"),
        ({"validation": {"no type": ["llm-judge"]}}, "validation: 'no type' is not the name"),
        ({"validation": {"code": ["by-hand"]}}, "validation.code.0"),
        ({"test_commands": [[]]}, "test_commands: has a command without words"),
        ({"test_commands": "make test"}, "test_commands"),
        ({"judge_url": "file:///etc/passwd"}, "judge_url: begins with http"),
        ({"judge_timeout_sec": 0}, "judge_timeout_sec"),
    ],
)
def test_an_invalid_required_validator_is_refused(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load("m", **settings)

    assert error in str(caught.value)
