"""Retry policies as data: what is accepted."""

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.attempt.outcome import Reason
from rqueue.task.attempt.retry import AUTOMECHANICA, FACTORY, REFERENCE, RetryPolicy
from rqueue.task.fields import YEAR_SEC


def test_the_default_is_document_b() -> None:
    assert RetryPolicy() == FACTORY == RetryPolicy.exponential()
    assert FACTORY.no_retry_on == (
        Reason.AUTH_FAILURE,
        Reason.BUDGET_EXCEEDED,
        Reason.CANCELLED,
    )


def test_the_presets_are_those_of_the_documents() -> None:
    assert (REFERENCE.initial_delay_sec, REFERENCE.max_delay_sec) == (60, 3600)
    assert (REFERENCE.jitter_kind, REFERENCE.share) == ("additive", 0.1)
    assert (FACTORY.initial_delay_sec, FACTORY.max_delay_sec) == (10, 300)
    assert (FACTORY.jitter_kind, FACTORY.share) == ("proportional", 0.5)
    assert (AUTOMECHANICA.strategy, AUTOMECHANICA.initial_delay_sec) == ("quadratic", 5)
    assert AUTOMECHANICA.share == 0


def test_true_is_the_usual_share_of_its_kind() -> None:
    assert RetryPolicy(jitter=True, jitter_kind="additive").share == 0.1
    assert RetryPolicy(jitter=True).share == 0.5
    assert RetryPolicy(jitter=False).share == 0.0
    assert RetryPolicy(jitter=0.25).share == 0.25


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"initial_delay_sec": -1}, "retry.initial_delay_sec"),
        ({"initial_delay_sec": float("nan")}, "retry.initial_delay_sec"),
        ({"initial_delay_sec": float("inf")}, "retry.initial_delay_sec"),
        ({"initial_delay_sec": YEAR_SEC + 1}, "retry.initial_delay_sec"),
        ({"initial_delay_sec": "10"}, "retry.initial_delay_sec"),
        ({"max_delay_sec": YEAR_SEC + 1}, "retry.max_delay_sec"),
        ({"backoff_multiplier": -2.0}, "retry.backoff_multiplier"),
        ({"power": float("inf")}, "retry.power"),
        ({"jitter": 1.5}, "retry.jitter"),
        ({"jitter": "yes"}, "retry.jitter"),
        ({"strategy": "random"}, "retry.strategy"),
        ({"retry_on": ["bad luck"]}, "retry.retry_on[0]"),
        ({"strategy": "list"}, "retry"),
        ({"delays": [1.0]}, "retry"),
        ({"surprise": 1}, "retry.surprise"),
    ],
)
def test_a_policy_out_of_bounds_is_refused_by_field(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        RetryPolicy.parse(fields, within="retry")

    assert refused.value.field == path


def test_every_constructor_makes_its_strategy() -> None:
    made = [
        RetryPolicy.exponential(1.0),
        RetryPolicy.quadratic(1.0),
        RetryPolicy.linear(1.0),
        RetryPolicy.fixed(1.0),
        RetryPolicy.immediate(),
        RetryPolicy.list([1.0, 2.0]),
    ]

    strategies = [policy.strategy for policy in made]
    assert strategies == ["exponential", "quadratic", "linear", "fixed", "immediate", "list"]


def test_a_constructor_refuses_as_typed_as_the_parser() -> None:
    with pytest.raises(InvalidTask, match=r"retry\.initial_delay_sec"):
        RetryPolicy.fixed(-1)
    with pytest.raises(InvalidTask, match=r"retry\.delays\[1\]"):
        RetryPolicy.list([1.0, -1.0])
