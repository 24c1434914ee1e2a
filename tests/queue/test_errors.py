"""Errors can be pickled with all their attributes, and check their arguments."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from rqueue import errors
from rqueue.errors import ConfigError, Reject, Retry, RQueueError

EXAMPLES = [
    errors.WrongState("task_1", found="READY", wanted=["RUNNING"]),
    errors.AlreadyDecided("task_1", found="READY", life=1, by="human:a"),
    errors.TaskDead("task_1", reason="error", message="no"),
    errors.TaskCancelled("task_1", reason="why"),
    errors.SubtaskFailed("task_1", state="CANCELLED", reason="why"),
    errors.ResultMissing("task_1", artifact="artifact:art_1"),
    errors.ResultTimeout("task_1", after=3.0),
    errors.LeaseLost("task_1", "1:x", counted=True),
    errors.InvalidTask("payload", "is too large"),
    errors.InvalidGraph("a cycle", ("a", "b")),
    errors.Forbidden("agent:coder", "agent"),
    errors.Retry(after=5, reason="busy"),
    errors.StoreUnavailable("redis"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: RQueueError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("after", "seconds"),
    [(None, None), (3, 3.0), (timedelta(minutes=1), 60.0), (Decimal("0.5"), 0.5), (1e300, 1e300)],
)
def test_a_retry_waits_for_seconds_or_a_timedelta(after: Any, seconds: float | None) -> None:
    assert Retry(after=after).after == seconds


@pytest.mark.parametrize(
    "after",
    [
        "soon",
        "3",
        [],
        -5,
        timedelta(seconds=-1),
        float("nan"),
        float("inf"),
        10**400,
        Decimal("sNaN"),
    ],
)
def test_a_retry_with_an_invalid_delay_is_refused(after: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"Retry\.after: must be a timedelta or a number of seconds >= 0, not"
    ):
        Retry(after=after)


@pytest.mark.parametrize("reason", [None, 12, b"no", ValueError("no")])
def test_a_reason_that_is_not_a_string_is_refused(reason: Any) -> None:
    with pytest.raises(ConfigError, match=r"Reject\.reason: must be a string, not"):
        Reject(reason)
    with pytest.raises(ConfigError, match=r"Retry\.reason: must be a string, not"):
        Retry(reason=reason)


def test_a_subclass_may_set_the_fields_of_its_message_on_the_class() -> None:
    class Busy(Retry):
        reason = "busy"

        def __init__(self) -> None:
            Exception.__init__(self)

    assert str(Busy()) == "busy"


def test_the_module_exports_its_errors_only() -> None:
    exported: dict[str, Any] = {}
    exec("from rqueue.errors import *", exported)
    del exported["__builtins__"]

    assert {"RQueueError", "Retry", "TaskNotFound"} <= set(exported)
    assert all(issubclass(kind, RQueueError) for kind in exported.values())
