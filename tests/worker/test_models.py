"""The model of an attempt."""

from __future__ import annotations

import pytest

from rqueue.task.attempt.outcome import Failed, Reason
from rqueue.task.spec import TaskSpec
from rqueue.worker.attempt import model_for

SPEC = TaskSpec.of(type="code", model_preferences=["best", "good"], fallback_models=["cheap"])


@pytest.mark.parametrize(
    ("attempts", "offered", "model"),
    [
        (0, [], "best"),
        (1, [], "best"),
        (2, [], "cheap"),
        (5, [], "cheap"),
        (0, ["good"], "good"),
        (0, ["good", "best"], "best"),
        (2, ["best", "cheap"], "cheap"),
    ],
)
def test_the_first_preferred_model_that_the_worker_offers_is_used(
    attempts: int, offered: list[str], model: str
) -> None:
    assert model_for(SPEC, attempts, offered) == model


def test_a_task_without_preferences_gets_no_model() -> None:
    assert model_for(TaskSpec.of(type="code"), 7, ["best"]) is None


def test_without_fallback_models_the_preferred_model_is_used_for_all_attempts() -> None:
    spec = TaskSpec.of(type="code", model_preferences=["best"])

    assert model_for(spec, 9, []) == "best"


def test_fallback_models_without_preferences_apply_from_the_third_attempt() -> None:
    spec = TaskSpec.of(type="code", fallback_models=["cheap"])

    assert [model_for(spec, attempts, []) for attempts in (0, 1, 2)] == [None, None, "cheap"]


@pytest.mark.parametrize(("attempts", "wanted"), [(0, "best, good"), (2, "cheap")])
def test_a_worker_without_the_models_fails_the_attempt_with_a_message(
    attempts: int, wanted: str
) -> None:
    found = model_for(SPEC, attempts, ["other", "another"])

    assert isinstance(found, Failed)
    assert (found.reason, found.permanent) == (Reason.ERROR, False)
    assert f"needs one of the models {wanted}; this worker has another, other" in found.message
    assert "--model" in found.message
