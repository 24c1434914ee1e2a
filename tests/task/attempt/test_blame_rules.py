"""The rules of blame in the settings."""

from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.settings.load import Settings
from rqueue.task.attempt.blame import DOCUMENT_B, NO_POISON, PoisonRule, WorkerRule


def settings(**given: Any) -> Settings:
    return Settings.load("q", url="redis://nowhere", **given)


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("on", PoisonRule()),
        (True, PoisonRule()),
        ("off", NO_POISON),
        (False, NO_POISON),
        ("document-b", DOCUMENT_B),
        ({"workers": 3}, PoisonRule(workers=3, attempts=2)),
        (PoisonRule(attempts=4), PoisonRule(attempts=4)),
    ],
)
def test_a_rule_is_a_word_or_its_parts(written: object, rule: PoisonRule) -> None:
    assert settings(poison=written).poison == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("document-b", DOCUMENT_B),
        ("off", NO_POISON),
        ("false", NO_POISON),
        ('{"workers": 3, "attempts": 5}', PoisonRule(workers=3, attempts=5)),
    ],
)
def test_a_variable_sets_it_too(
    text: str, rule: PoisonRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQUEUE_POISON", text)
    monkeypatch.setenv("RQUEUE_BAD_WORKERS", '{"tasks": 3}')

    assert settings().poison == rule
    assert settings().bad_workers == WorkerRule(tasks=3)


@pytest.mark.parametrize("written", ["never", "3", {"workers": 0}, {"worker": 2}, 7])
def test_what_is_no_rule_is_refused(written: object) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(poison=written)

    assert raised.value.setting.startswith("poison")


def test_bad_workers_are_switched_off_by_a_word() -> None:
    assert not settings(bad_workers=False).bad_workers.enabled
    assert settings(bad_workers="on").bad_workers == WorkerRule()
    with pytest.raises(ConfigError):
        settings(bad_workers={"share": 0})


@pytest.mark.parametrize(
    ("profile", "rule"),
    [("factory", PoisonRule()), ("reference", NO_POISON), ("automechanica", NO_POISON)],
)
def test_of_the_three_documents_only_b_knows_pills(profile: str, rule: PoisonRule) -> None:
    assert settings(profile=profile).poison == rule
    assert settings(profile=profile, poison="document-b").poison == DOCUMENT_B
