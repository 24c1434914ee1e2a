"""The three profiles."""

import pytest

from rqueue.errors import ConfigError
from rqueue.settings.profiles import DEFAULT_PROFILE, PROFILES, profile_of
from rqueue.task.attempt.retry import AUTOMECHANICA, FACTORY, REFERENCE
from rqueue.task.forms import FORMS


def test_the_default_is_document_b() -> None:
    assert DEFAULT_PROFILE is profile_of("factory")
    assert DEFAULT_PROFILE.retry is FACTORY
    assert (DEFAULT_PROFILE.scale, DEFAULT_PROFILE.ageing_per_minute) == ("native", 0.1)


def test_reference_has_strict_order_deduplication_by_content_and_decision_reports() -> None:
    profile = profile_of("reference")

    assert (profile.scale, profile.retry, profile.view) == ("1-10", REFERENCE, "A")
    assert (profile.ageing_per_minute, profile.dedupe) == (0, "content")
    assert profile.decision_report


def test_automechanica_has_its_scale_lease_and_events() -> None:
    profile = profile_of("automechanica")

    assert (profile.scale, profile.retry, profile.view) == ("0-3", AUTOMECHANICA, "C")
    assert (profile.lease_sec, profile.spawn_policy) == (30, "same_agent")
    assert profile.agent_events
    assert profile.embedding_jobs


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_an_existing_form(name: str) -> None:
    assert profile_of(name).view in FORMS


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="reference, factory, automechanica"):
        profile_of("default")
