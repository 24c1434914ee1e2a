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
def test_a_span_and_an_instant_give_the_same_deadline(given: object) -> None:
    spec = dated(expires=given)

    assert (spec.deadline, spec.on_deadline, spec.expires_sec) == (THEN, "cancel", None)


def test_expires_is_stored_as_a_deadline() -> None:
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
def test_an_invalid_time_is_refused(given: object, rule: str) -> None:
    with pytest.raises(InvalidTask, match=rule) as raised:
        dated(expires=given)

    assert raised.value.field == "expires"


@pytest.mark.parametrize(
    "other", [{"deadline": THEN}, {"on_deadline": "fail"}, {"expires_sec": 60.0}]
)
def test_expires_with_a_deadline_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="give one of them") as raised:
        dated(expires=60, **other)

    assert raised.value.field == "expires"


def test_expires_sec_with_a_deadline_is_refused() -> None:
    with pytest.raises(InvalidTask, match="give one of them"):
        dated(expires_sec=60.0, deadline=THEN)


def test_expires_none_changes_nothing() -> None:
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
def test_options_of_a_call_override_those_of_its_handler(
    own: dict[str, Any], given: dict[str, Any], left: dict[str, Any]
) -> None:
    assert merged(own, given) == left
