"""Errors cross processes with all their facts."""

from __future__ import annotations

import pickle

import pytest

from rqueue import errors
from rqueue.errors import RQueueError

EXAMPLES = [
    errors.WrongState("task_1", found="READY", wanted=["RUNNING"]),
    errors.TaskDead("task_1", reason="error", message="no"),
    errors.TaskCancelled("task_1", reason="why"),
    errors.ResultTimeout("task_1", after=3.0),
    errors.LeaseLost("task_1", "1:x"),
    errors.InvalidTask("payload", "is too large"),
    errors.InvalidGraph("a cycle", ("a", "b")),
    errors.Retry(after=5, reason="busy"),
    errors.StoreUnavailable("redis"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: RQueueError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
