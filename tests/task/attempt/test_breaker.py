"""Whether a failure counts against its type, and by which rule."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rqueue.task.attempt.breaker import BreakerRule, Breakers, breaker_words
from rqueue.task.attempt.outcome import Reason

RULE = BreakerRule(failure_threshold=4, half_open_after_sec=1.5, cooldown_sec=20)
UNCOUNTED = {Reason.CANCELLED, Reason.BUDGET_EXCEEDED, Reason.CLAIM_EXPIRED, Reason.RATE_LIMIT}


@pytest.mark.parametrize("reason", Reason)
def test_reasons_that_are_not_the_services_fault_do_not_count(reason: Reason) -> None:
    assert breaker_words(RULE, reason, dead=True) == ("" if reason in UNCOUNTED else "4 1500 20000")


def test_all_failures_count_or_only_dead_tasks() -> None:
    dead_only = RULE.model_copy(update={"count": "dead_letter"})

    assert breaker_words(RULE, Reason.ERROR, dead=False) == "4 1500 20000"
    assert breaker_words(dead_only, Reason.ERROR, dead=False) == "probe 20000"
    assert breaker_words(dead_only, Reason.RATE_LIMIT, dead=False) == ""
    assert breaker_words(dead_only, Reason.ERROR, dead=True) == "4 1500 20000"


def test_a_disabled_breaker_counts_nothing() -> None:
    assert breaker_words(RULE.model_copy(update={"enabled": False}), Reason.ERROR, dead=True) == ""


def test_the_defaults_are_those_of_the_document() -> None:
    rule = Breakers().of("any")

    assert (rule.failure_threshold, rule.half_open_after_sec, rule.cooldown_sec) == (5, 60, 300)
    assert (rule.count, rule.enabled) == ("attempt", True)


def test_a_type_overrides_only_its_given_fields() -> None:
    breakers = Breakers.model_validate(
        {
            "defaults": {"failureThreshold": 5, "cooldownSeconds": 300, "halfOpenAfter": 7},
            "overrides": {"ops-security": {"failureThreshold": 3}},
        }
    )

    assert breakers.of("ops-security") == BreakerRule(failure_threshold=3, half_open_after_sec=7)
    assert breakers.of("biz-marketing").failure_threshold == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"failure_threshold": 0},
        {"cooldown_sec": 0},
        {"half_open_after_sec": float("nan")},
        {"count": "luck"},
        {"threshold": 5},
    ],
)
def test_an_invalid_rule_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BreakerRule.model_validate(wrong)
