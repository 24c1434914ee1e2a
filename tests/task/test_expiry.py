"""`expires` is a deadline after which a task is cancelled, as a time span or as an instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.spec import TaskSpec, merged

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
THEN = NOW + timedelta(minutes=1)


def dated(**fields: Any) -> TaskSpec:
    return TaskSpec.of(type="mail", **fields).dated(NOW)


@pytest.mark.parametrize("given", [60, 60.0, timedelta(minutes=1), "PT1M", THEN, THEN.isoformat()])
def test_all_ways_to_say_it_mean_the_same(given: object) -> None:
    spec = dated(expires=given)

    assert (spec.deadline, spec.on_deadline, spec.expires_sec) == (THEN, "cancel", None)


def test_it_is_stored_as_the_deadline_that_it_is() -> None:
    assert dated(expires=60).definition() == dated(expires=THEN).definition()
    assert TaskSpec.from_definition(dated(expires=60).definition()).deadline == THEN


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (0, "more than 0 seconds"),
        (-1, "more than 0 seconds"),
        (float("nan"), "more than 0 seconds"),
        (float("inf"), "more than 0 seconds"),
        (timedelta(days=400), "at most a year"),
        (True, "is a number of seconds, a timedelta, or an instant"),
        ("soon", "is a number of seconds, a timedelta, or an instant"),
        ("2030-01-31T12:00:00", "is a number of seconds, a timedelta, or an instant"),
        ([60], "is a number of seconds, a timedelta, or an instant"),
        ("PX", "is not a span of time"),
    ],
)
def test_what_is_no_time_is_refused(given: object, rule: str) -> None:
    with pytest.raises(InvalidTask, match=rule) as raised:
        dated(expires=given)

    assert raised.value.field == "expires"


@pytest.mark.parametrize(
    "other", [{"deadline": THEN}, {"on_deadline": "fail"}, {"expires_sec": 60.0}]
)
def test_given_twice_it_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="give one of them") as raised:
        dated(expires=60, **other)

    assert raised.value.field == "expires"


def test_its_long_name_stands_beside_no_deadline_either() -> None:
    with pytest.raises(InvalidTask, match="give one of them"):
        dated(expires_sec=60.0, deadline=THEN)


def test_none_is_as_good_as_nothing() -> None:
    assert dated(expires=None, deadline=THEN).on_deadline == "run"
    assert dated(expires=None).deadline is None


@pytest.mark.parametrize(
    ("own", "given", "left"),
    [
        ({"deadline": THEN, "on_deadline": "fail"}, {"expires": 5}, {"expires": 5}),
        ({"expires": 60}, {"deadline": THEN}, {"deadline": THEN}),
        ({"expires": 60}, {"expires": 5}, {"expires": 5}),
        ({"expires": 60}, {"priority": 5}, {"expires": 60, "priority": 5}),
    ],
)
def test_a_calls_own_overrides_its_handlers(
    own: dict[str, Any], given: dict[str, Any], left: dict[str, Any]
) -> None:
    assert merged(own, given) == left
