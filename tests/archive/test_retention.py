"""Retention: for ever by default, and no minute counted anew that has lost rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rqueue.archive.retention import Retention
from rqueue.errors import ConfigError
from rqueue.settings.load import Settings

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def test_nothing_goes_where_nothing_is_said() -> None:
    assert Retention().is_for_ever
    assert not Retention(dead_days=1).is_for_ever
    assert not Retention(cancelled_days=1).is_for_ever
    assert Retention().recounted_from(NOW) < NOW - timedelta(days=36_000)


def test_a_minute_is_counted_anew_only_while_all_of_it_is_there() -> None:
    assert Retention(completed_days=10).recounted_from(NOW) == NOW - timedelta(days=10, hours=-1)
    # What was cancelled counts as well: its attempts that failed are in the rates of their agents.
    assert Retention(cancelled_days=1).recounted_from(NOW) == NOW - timedelta(hours=23)
    assert Retention(dead_days=1).recounted_from(NOW) == NOW - timedelta(hours=23)
    # The day that a minute belongs to is made of minutes that are a day older.
    assert Retention(metrics_minute_days=2).recounted_from(NOW) == NOW - timedelta(days=1)


@pytest.mark.parametrize(
    ("policy", "setting"),
    [
        ({"completed_days": 0}, "retention.completed_days"),
        ({"metrics_minute_days": 1}, "retention.metrics_minute_days"),
        ({"dead": 1}, "retention.dead"),
        ({"cancelled_days": 1.5}, "retention.cancelled_days"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.model_validate({"name": "q", "retention": policy})

    assert refused.value.setting == setting
