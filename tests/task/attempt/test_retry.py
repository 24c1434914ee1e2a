"""Whether and when a failed attempt is retried."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.errors import InvalidTask
from rqueue.task.attempt.outcome import Failed, Lost, Reason
from rqueue.task.attempt.retry import (
    AUTOMECHANICA,
    FACTORY,
    REFERENCE,
    DeadLetter,
    Facts,
    RetryLater,
    RetryPolicy,
    RetryRules,
    decide,
    delay,
    runs_exclusively,
)
from rqueue.task.fields import YEAR_SEC
from rqueue.task.state import State

ATTEMPTS = st.integers(1, 1000)
SEED = st.integers(0, 2**32)
STILL = RetryPolicy(jitter=False)
STARTED = st.sampled_from([State.RUNNING, State.VALIDATING])


def without_jitter(policy: RetryPolicy) -> RetryPolicy:
    return policy.model_copy(update={"jitter": False})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (REFERENCE, [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        (FACTORY, [10, 20, 40, 80, 160, 300, 300]),
        (AUTOMECHANICA, [5, 20, 45, 80]),
        (RetryPolicy.linear(3), [3, 6, 9]),
        (RetryPolicy.fixed(7), [7, 7, 7]),
        (RetryPolicy.immediate(), [0, 0, 0]),
        (RetryPolicy.list([1, 5, 9]), [1, 5, 9, 9, 9]),
        (RetryPolicy.quadratic(2, max_delay=10), [2, 8, 10]),
    ],
)
def test_delays_are_those_of_the_documents(policy: RetryPolicy, expected: list[float]) -> None:
    still, numbers = without_jitter(policy), range(1, len(expected) + 1)

    assert [delay(still, attempts, Random(1)) for attempts in numbers] == expected


@given(ATTEMPTS, SEED)
def test_proportional_jitter_stays_within_half_of_the_delay(attempts: int, seed: int) -> None:
    base = delay(without_jitter(FACTORY), attempts, Random(seed))

    assert 0.5 * base <= delay(FACTORY, attempts, Random(seed)) <= 1.5 * base


@given(ATTEMPTS, SEED)
def test_additive_jitter_adds_at_most_a_tenth(attempts: int, seed: int) -> None:
    base = delay(without_jitter(REFERENCE), attempts, Random(seed))

    assert base <= delay(REFERENCE, attempts, Random(seed)) <= 1.1 * base


@given(ATTEMPTS, SEED)
def test_a_clamped_delay_never_exceeds_its_cap(attempts: int, seed: int) -> None:
    policy = FACTORY.model_copy(update={"clamp_after_jitter": True})

    assert delay(policy, attempts, Random(seed)) <= 300


def test_jitter_comes_after_the_cap_so_that_a_delay_may_exceed_it() -> None:
    assert any(delay(FACTORY, 20, Random(seed)) > 300 for seed in range(20))


@given(
    st.sampled_from(["exponential", "quadratic", "linear", "fixed", "immediate"]),
    st.floats(0, YEAR_SEC),
    st.floats(1, 1000),
    ATTEMPTS,
)
def test_without_jitter_delays_never_shrink_and_never_exceed_a_year(
    strategy: str, initial: float, multiplier: float, attempts: int
) -> None:
    policy = RetryPolicy.of(
        strategy=strategy,
        initial_delay_sec=initial,
        backoff_multiplier=multiplier,
        max_delay_sec=None,
        jitter=False,
    )

    waits = [delay(policy, number, Random(1)) for number in (attempts, attempts + 1)]

    assert 0 <= waits[0] <= waits[1] <= YEAR_SEC


def test_a_failure_is_retried_until_the_attempts_are_spent() -> None:
    rules = RetryRules(policy=without_jitter(FACTORY), max_attempts=3)
    failure = Failed(Reason.ERROR, "broken")

    decisions = [decide(failure, Facts(attempts), rules, Random(1)) for attempts in range(3)]

    assert decisions == [RetryLater(10, 1, 0), RetryLater(20, 2, 0), DeadLetter("error", 3, 0)]


def test_with_max_attempts_one_the_first_failure_is_the_last() -> None:
    rules = RetryRules(max_attempts=1)

    assert decide(Failed(Reason.TIMEOUT, ""), Facts(), rules, Random(1)) == DeadLetter(
        "timeout", 1, 0
    )


def test_a_rejected_task_is_dead_immediately() -> None:
    failure = Failed(Reason.ERROR, "never", permanent=True, retry_after=5)

    assert decide(failure, Facts(), RetryRules(), Random(1)) == DeadLetter("error", 1, 0)


@pytest.mark.parametrize("reason", [Reason.AUTH_FAILURE, Reason.BUDGET_EXCEEDED, Reason.CANCELLED])
def test_a_reason_of_no_retry_on_is_not_retried(reason: Reason) -> None:
    assert decide(Failed(reason, ""), Facts(), RetryRules(), Random(1)) == DeadLetter(reason, 1, 0)


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        (Reason.TIMEOUT, True),
        (Reason.ERROR, True),
        (Reason.HEARTBEAT_TIMEOUT, True),
        (Reason.INVALID_OUTPUT, False),
        (Reason.INCOMPLETE, False),
        (Reason.RATE_LIMIT, False),
    ],
)
def test_a_given_retry_on_restricts_the_named_reasons_only(reason: Reason, again: bool) -> None:
    policy = RetryPolicy(retry_on=(Reason.TIMEOUT, Reason.CRASH))

    decision = decide(Failed(reason, ""), Facts(), RetryRules(policy=policy), Random(1))

    assert isinstance(decision, RetryLater) is again


def test_no_retry_on_a_family_overrides_retry_on_a_reason_of_it() -> None:
    policy = RetryPolicy(retry_on=(Reason.INCOMPLETE,), no_retry_on=(Reason.INVALID_OUTPUT,))

    decision = decide(Failed(Reason.INCOMPLETE, ""), Facts(), RetryRules(policy), Random(1))

    assert decision == DeadLetter("incomplete", 1, 0)


@pytest.mark.parametrize(
    ("requested", "given_sec"), [(7.5, 7.5), (0, 0), (-3, 0), (1e12, YEAR_SEC)]
)
def test_a_handler_may_set_the_delay(requested: float, given_sec: float) -> None:
    failure = Failed(Reason.RATE_LIMIT, "", retry_after=requested)

    assert decide(failure, Facts(), RetryRules(), Random(1)) == RetryLater(given_sec, 1, 0)


@given(st.integers(0, 2000), st.integers(0, 2000), st.booleans())
def test_a_task_that_never_started_spends_nothing(
    attempts: int, reclaims: int, counts: bool
) -> None:
    facts, rules = Facts(attempts, reclaims), RetryRules(lost_worker_counts=counts)

    for outcome in (Lost(State.CLAIMED), Failed(Reason.CLAIM_EXPIRED, "")):
        assert decide(outcome, facts, rules, Random(1)) == RetryLater(0, attempts, reclaims)


@given(STARTED)
def test_a_lost_worker_spends_an_attempt_and_a_reclaim(state: State) -> None:
    rules = RetryRules(policy=STILL, max_attempts=2)

    first = decide(Lost(state), Facts(), rules, Random(1))
    second = decide(Lost(state), Facts(1, 1), rules, Random(1))

    assert first == RetryLater(0, 1, 1)
    assert second == DeadLetter("heartbeat_timeout", 2, 2)


@pytest.mark.parametrize(
    ("attempts", "reclaims", "exclusive"),
    [(1, 1, False), (2, 2, True), (2, 1, True), (0, 1, False), (0, 2, True)],
)
def test_a_task_is_exclusive_from_its_second_loss_or_for_its_last_attempt(
    attempts: int, reclaims: int, exclusive: bool
) -> None:
    assert runs_exclusively(attempts, reclaims, RetryRules(max_attempts=3)) is exclusive


@given(STARTED, st.integers(0, 20))
def test_where_lost_workers_do_not_count_only_reclaims_are_bounded(
    state: State, reclaims: int
) -> None:
    rules = RetryRules(lost_worker_counts=False, max_reclaims=10)

    decision = decide(Lost(state), Facts(2, reclaims), rules, Random(1))

    if reclaims < 10:
        assert decision == RetryLater(0, 2, reclaims + 1)
    else:
        assert decision == DeadLetter("lost_worker", 2, reclaims + 1)


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


def test_jitter_true_is_the_default_share_of_its_kind() -> None:
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


def test_a_constructor_raises_the_error_of_the_parser() -> None:
    with pytest.raises(InvalidTask, match=r"retry\.initial_delay_sec"):
        RetryPolicy.fixed(-1)
    with pytest.raises(InvalidTask, match=r"retry\.delays\[1\]"):
        RetryPolicy.list([1.0, -1.0])
