"""Retention: unlimited by default, and minutes with pruned rows are not counted again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rqueue.archive.maintenance.retention import Retention
from rqueue.errors import ConfigError
from rqueue.settings.load import Settings

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def test_the_default_retention_is_unlimited() -> None:
    assert Retention().is_for_ever
    assert not Retention(dead_days=1).is_for_ever
    assert not Retention(cancelled_days=1).is_for_ever
    assert Retention().recounted_from(NOW) < NOW - timedelta(days=36_000)


def test_only_minutes_without_pruned_rows_are_counted_again() -> None:
    assert Retention(completed_days=10).recounted_from(NOW) == NOW - timedelta(days=10, hours=-1)
    # Cancelled tasks count too: their failed attempts are in the error rates of agents.
    assert Retention(cancelled_days=1).recounted_from(NOW) == NOW - timedelta(hours=23)
    assert Retention(dead_days=1).recounted_from(NOW) == NOW - timedelta(hours=23)
    # The day of a minute is computed from minutes that are up to a day older.
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
def test_an_invalid_retention_is_refused(policy: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.model_validate({"name": "q", "retention": policy})

    assert refused.value.setting == setting
