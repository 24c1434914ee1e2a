"""The failure matrix: what a failure may be blamed on, and when that makes a poison pill."""

from collections.abc import Sequence
from random import Random

import pytest

from rqueue.task.attempt.blame import (
    DOCUMENT_B,
    KEPT,
    NO_POISON,
    PATTERN,
    Culprit,
    PoisonRule,
    failed_elsewhere,
    suspects,
    witnesses,
)
from rqueue.task.attempt.outcome import Cause, Failed, Lost, Reason
from rqueue.task.attempt.retry import DeadLetter, Facts, RetryLater, RetryRules, decide
from rqueue.task.state import State

TASK, WORKER, TYPE = Culprit.TASK, Culprit.WORKER, Culprit.TYPE
RULE = PoisonRule()


def failed(reason: Reason, cause: Cause = Cause.WITHIN, *, exclusive: bool = False) -> Failed:
    return Failed(reason, "", cause=cause, exclusive=exclusive)


# The table of docs/guides/blame.md, row by row.
MATRIX: list[tuple[str, Failed | Lost, set[Culprit]]] = [
    ("raised", failed(Reason.ERROR), {TASK, WORKER, TYPE}),
    ("bad output", failed(Reason.INVALID_OUTPUT), {TASK, WORKER, TYPE}),
    ("no report", failed(Reason.INCOMPLETE), {TASK, WORKER, TYPE}),
    ("never again", Failed(Reason.ERROR, "", permanent=True), {TASK, TYPE}),
    ("connection", failed(Reason.ERROR, Cause.OUTSIDE), {WORKER, TYPE}),
    ("service was slow", failed(Reason.TIMEOUT, Cause.OUTSIDE, exclusive=True), {WORKER, TYPE}),
    ("no login", failed(Reason.AUTH_FAILURE), {WORKER, TYPE}),
    ("time was up, alone", failed(Reason.TIMEOUT, exclusive=True), {TASK, WORKER, TYPE}),
    ("time was up, in company", failed(Reason.TIMEOUT), {WORKER, TYPE}),
    ("no memory, alone", failed(Reason.CRASH, exclusive=True), {TASK, WORKER, TYPE}),
    ("no memory, in company", failed(Reason.CRASH), {WORKER, TYPE}),
    ("asked for another", failed(Reason.ERROR, Cause.ASKED), {TYPE}),
    ("limited", failed(Reason.RATE_LIMIT), set()),
    ("cancelled", failed(Reason.CANCELLED, exclusive=True), set()),
    ("not paid", failed(Reason.BUDGET_EXCEEDED), set()),
    ("not begun in time", failed(Reason.CLAIM_EXPIRED, exclusive=True), set()),
    ("lost, not begun", Lost(State.CLAIMED, exclusive=True), set()),
    ("lost, alone", Lost(State.RUNNING, exclusive=True), {TASK, TYPE}),
    ("lost, in company", Lost(State.RUNNING), {TYPE}),
    ("lost while checked", Lost(State.VALIDATING, exclusive=True), {TASK, TYPE}),
]


@pytest.mark.parametrize(
    ("outcome", "culprits"), [row[1:] for row in MATRIX], ids=[row[0] for row in MATRIX]
)
def test_a_failure_may_be_the_fault_of(outcome: Failed | Lost, culprits: set[Culprit]) -> None:
    assert suspects(outcome) == culprits


def test_every_reason_is_judged() -> None:
    assert {row[1].reason for row in MATRIX if isinstance(row[1], Failed)} == set(Reason) - {
        # Words of lost workers, whose tasks the reaper judges.
        Reason.HEARTBEAT_TIMEOUT, Reason.WORKER_LOST,
    }  # fmt: skip


def test_failures_in_a_row_do_not_blame_the_tasks() -> None:
    outcome = failed(Reason.ERROR)

    found = [Culprit.TASK in suspects(outcome, in_a_row) for in_a_row in range(PATTERN + 2)]

    assert found == [True, True, False, False]


def course(
    failures: Sequence[tuple[str, Failed | Lost]], rules: RetryRules, in_a_row: int = 0
) -> RetryLater | DeadLetter:
    """The decision at the last of these failures."""
    decision: RetryLater | DeadLetter = RetryLater(0.0, 0, 0)
    for worker, outcome in failures:
        assert isinstance(decision, RetryLater)
        before = decision.attempts, decision.reclaims, decision.failed_by
        decision = decide(outcome, Facts(*before, worker, in_a_row), rules, Random(1))
    return decision


ERROR = failed(Reason.ERROR)
LATE = failed(Reason.TIMEOUT)
ALONE = Lost(State.RUNNING, exclusive=True)
FIVE = RetryRules(max_attempts=5, poison=RULE)


def test_two_workers_make_a_pill_and_save_what_attempts_are_left() -> None:
    assert course([("w1", ERROR), ("w2", ERROR)], FIVE) == DeadLetter(
        "error", 2, 0, ("w1", "w2"), poison=True
    )


@pytest.mark.parametrize(
    ("failures", "failed_by"),
    [
        ([("w1", ERROR)], ("w1",)),
        ([("w1", ERROR), ("w1", ERROR), ("w1", ERROR)], ("w1",)),
        ([("w1", ERROR), ("w2", LATE)], ("w1", "?w2")),
        ([("w1", LATE), ("w2", ERROR)], ("w2", "?w1")),
        ([("w1", LATE), ("w1", LATE), ("w2", LATE)], ("?w1", "?w2")),
        ([("w1", ERROR), ("w2", Lost(State.RUNNING))], ("w1",)),
        ([("w1", ERROR), ("w2", Lost(State.CLAIMED))], ("w1",)),
        ([("w1", ERROR), ("", ERROR)], ("w1",)),
    ],
)
def test_less_makes_none(
    failures: list[tuple[str, Failed | Lost]], failed_by: tuple[str, ...]
) -> None:
    found = course(failures, FIVE)

    assert isinstance(found, RetryLater)
    assert found.failed_by == failed_by


def test_a_killer_of_two_workers_is_a_pill() -> None:
    assert course([("w1", ALONE), ("w2", ALONE)], FIVE) == DeadLetter(
        "heartbeat_timeout", 2, 2, ("w1", "w2"), poison=True
    )
    # Where losses are no attempts, they count here all the same.
    uncounted = RetryRules(lost_worker_counts=False, poison=RULE)
    assert course([("w1", ALONE), ("w2", ALONE)], uncounted) == DeadLetter(
        "heartbeat_timeout", 0, 2, ("w1", "w2"), poison=True
    )


def test_what_a_suspicious_worker_failed_makes_no_pill() -> None:
    assert isinstance(course([("w1", ERROR), ("w2", ERROR)], FIVE, in_a_row=PATTERN), RetryLater)


def test_document_bs_rule_waits_for_the_third_attempt() -> None:
    rules = RetryRules(max_attempts=5, poison=DOCUMENT_B)
    twice = [("w1", ERROR), ("w2", ERROR)]

    assert isinstance(course(twice, rules), RetryLater)
    assert course([*twice, ("w1", ERROR)], rules) == DeadLetter(
        "error", 3, 0, ("w1", "w2"), poison=True
    )
    # With its own three attempts it saves none of them, and is marked all the same.
    assert course([*twice, ("w1", ERROR)], RetryRules(poison=DOCUMENT_B)).reclaims == 0


def test_the_last_attempt_is_named_by_the_rule_too() -> None:
    rules = RetryRules(max_attempts=2, poison=RULE)

    assert course([("w1", ERROR), ("w2", ERROR)], rules) == DeadLetter(
        "error", 2, 0, ("w1", "w2"), poison=True
    )
    assert course([("w1", ERROR), ("w1", ERROR)], rules) == DeadLetter("error", 2, 0, ("w1",))


def test_switched_off_there_are_none() -> None:
    rules = RetryRules(max_attempts=3, poison=NO_POISON)
    failures = [("w1", ERROR), ("w2", ERROR), ("w3", ERROR)]

    assert course(failures, rules) == DeadLetter("error", 3, 0, ("w1", "w2"))


def test_no_more_names_are_kept_than_are_needed() -> None:
    doubted = frozenset({WORKER, TYPE})
    names: tuple[str, ...] = ()
    for at in range(10):
        names = witnesses(names, f"w{at}", doubted, RULE)
    assert names == tuple(f"?w{at}" for at in range(10 - KEPT, 10))

    assert witnesses(names, "w9", doubted, RULE) == names
    assert witnesses(("a", "b"), "c", frozenset({TASK}), RULE) == ("a", "b")


def test_a_worker_that_completed_it_is_not_blamed() -> None:
    assert failed_elsewhere(("w1", "?w1", "?w2"), "w1") == ["w2"]
    assert failed_elsewhere((), "w1") == []
