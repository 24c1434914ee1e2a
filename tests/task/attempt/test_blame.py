"""The failure matrix: what a failure may be blamed on, and when a task is a poison pill."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.settings.load import Settings
from rqueue.task.attempt.blame import (
    DOCUMENT_B,
    KEPT,
    NO_POISON,
    PATTERN,
    Culprit,
    PoisonRule,
    WorkerRule,
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
    ("permanent", Failed(Reason.ERROR, "", permanent=True), {TASK, TYPE}),
    ("connection", failed(Reason.ERROR, Cause.OUTSIDE), {WORKER, TYPE}),
    ("service was slow", failed(Reason.TIMEOUT, Cause.OUTSIDE, exclusive=True), {WORKER, TYPE}),
    ("no login", failed(Reason.AUTH_FAILURE), {WORKER, TYPE}),
    ("timeout, exclusive", failed(Reason.TIMEOUT, exclusive=True), {TASK, WORKER, TYPE}),
    ("timeout, not exclusive", failed(Reason.TIMEOUT), {WORKER, TYPE}),
    ("no memory, exclusive", failed(Reason.CRASH, exclusive=True), {TASK, WORKER, TYPE}),
    ("no memory, not exclusive", failed(Reason.CRASH), {WORKER, TYPE}),
    ("requested another attempt", failed(Reason.ERROR, Cause.REQUESTED), {TYPE}),
    ("rate limited", failed(Reason.RATE_LIMIT), set()),
    ("cancelled", failed(Reason.CANCELLED, exclusive=True), set()),
    ("budget exceeded", failed(Reason.BUDGET_EXCEEDED), set()),
    ("not begun in time", failed(Reason.CLAIM_EXPIRED, exclusive=True), set()),
    ("lost, not begun", Lost(State.CLAIMED, exclusive=True), set()),
    ("lost, exclusive", Lost(State.RUNNING, exclusive=True), {TASK, TYPE}),
    ("lost, not exclusive", Lost(State.RUNNING), {TYPE}),
    ("lost while checked", Lost(State.VALIDATING, exclusive=True), {TASK, TYPE}),
]


@pytest.mark.parametrize(
    ("outcome", "culprits"), [row[1:] for row in MATRIX], ids=[row[0] for row in MATRIX]
)
def test_a_failure_has_the_culprits_of_the_matrix(
    outcome: Failed | Lost, culprits: set[Culprit]
) -> None:
    assert suspects(outcome) == culprits


def test_every_reason_is_in_the_matrix() -> None:
    assert {row[1].reason for row in MATRIX if isinstance(row[1], Failed)} == set(Reason) - {
        # Reasons of lost workers; the reaper decides about their tasks.
        Reason.HEARTBEAT_TIMEOUT, Reason.WORKER_LOST,
    }  # fmt: skip


def test_failures_in_a_row_do_not_blame_the_tasks() -> None:
    outcome = failed(Reason.ERROR)

    found = [Culprit.TASK in suspects(outcome, in_a_row) for in_a_row in range(PATTERN + 2)]

    assert found == [True, True, False, False]


def decision_after(
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
LOST_EXCLUSIVE = Lost(State.RUNNING, exclusive=True)
FIVE = RetryRules(max_attempts=5, poison=RULE)


def test_failures_on_two_workers_make_a_poison_pill_before_the_last_attempt() -> None:
    assert decision_after([("w1", ERROR), ("w2", ERROR)], FIVE) == DeadLetter(
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
def test_fewer_failures_make_no_poison_pill(
    failures: list[tuple[str, Failed | Lost]], failed_by: tuple[str, ...]
) -> None:
    found = decision_after(failures, FIVE)

    assert isinstance(found, RetryLater)
    assert found.failed_by == failed_by


def test_a_task_that_kills_two_workers_is_a_poison_pill() -> None:
    assert decision_after([("w1", LOST_EXCLUSIVE), ("w2", LOST_EXCLUSIVE)], FIVE) == DeadLetter(
        "heartbeat_timeout", 2, 2, ("w1", "w2"), poison=True
    )
    # Losses count here even where they are no attempts.
    uncounted = RetryRules(lost_worker_counts=False, poison=RULE)
    assert decision_after(
        [("w1", LOST_EXCLUSIVE), ("w2", LOST_EXCLUSIVE)], uncounted
    ) == DeadLetter("heartbeat_timeout", 0, 2, ("w1", "w2"), poison=True)


def test_failures_of_a_worker_that_fails_in_a_row_make_no_poison_pill() -> None:
    assert isinstance(
        decision_after([("w1", ERROR), ("w2", ERROR)], FIVE, in_a_row=PATTERN), RetryLater
    )


def test_the_rule_of_document_b_applies_from_the_third_attempt() -> None:
    rules = RetryRules(max_attempts=5, poison=DOCUMENT_B)
    twice = [("w1", ERROR), ("w2", ERROR)]

    assert isinstance(decision_after(twice, rules), RetryLater)
    assert decision_after([*twice, ("w1", ERROR)], rules) == DeadLetter(
        "error", 3, 0, ("w1", "w2"), poison=True
    )
    # With three attempts the rule saves none of them, but the task is still a poison pill.
    assert decision_after([*twice, ("w1", ERROR)], RetryRules(poison=DOCUMENT_B)).reclaims == 0


def test_a_last_attempt_can_make_a_poison_pill() -> None:
    rules = RetryRules(max_attempts=2, poison=RULE)

    assert decision_after([("w1", ERROR), ("w2", ERROR)], rules) == DeadLetter(
        "error", 2, 0, ("w1", "w2"), poison=True
    )
    assert decision_after([("w1", ERROR), ("w1", ERROR)], rules) == DeadLetter(
        "error", 2, 0, ("w1",)
    )


def test_without_the_rule_there_are_no_poison_pills() -> None:
    rules = RetryRules(max_attempts=3, poison=NO_POISON)
    failures = [("w1", ERROR), ("w2", ERROR), ("w3", ERROR)]

    assert decision_after(failures, rules) == DeadLetter("error", 3, 0, ("w1", "w2"))


def test_only_as_many_worker_names_are_stored_as_needed() -> None:
    doubted = frozenset({WORKER, TYPE})
    names: tuple[str, ...] = ()
    for at in range(10):
        names = witnesses(names, f"w{at}", doubted, RULE)
    assert names == tuple(f"?w{at}" for at in range(10 - KEPT, 10))

    assert witnesses(names, "w9", doubted, RULE) == names
    assert witnesses(("a", "b"), "c", frozenset({TASK}), RULE) == ("a", "b")


def test_the_worker_that_completed_a_task_is_not_blamed() -> None:
    assert failed_elsewhere(("w1", "?w1", "?w2"), "w1") == ["w2"]
    assert failed_elsewhere((), "w1") == []


def settings(**given: Any) -> Settings:
    return Settings.load("q", url="redis://nowhere", **given)


@pytest.mark.parametrize(
    ("given_value", "rule"),
    [
        ("on", PoisonRule()),
        (True, PoisonRule()),
        ("off", NO_POISON),
        (False, NO_POISON),
        ("document-b", DOCUMENT_B),
        ({"workers": 3}, PoisonRule(workers=3, attempts=2)),
        (PoisonRule(attempts=4), PoisonRule(attempts=4)),
    ],
)
def test_a_poison_rule_is_a_word_or_a_mapping(given_value: object, rule: PoisonRule) -> None:
    assert settings(poison=given_value).poison == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("document-b", DOCUMENT_B),
        ("off", NO_POISON),
        ("false", NO_POISON),
        ('{"workers": 3, "attempts": 5}', PoisonRule(workers=3, attempts=5)),
    ],
)
def test_environment_variables_set_the_rules(
    text: str, rule: PoisonRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQUEUE_POISON", text)
    monkeypatch.setenv("RQUEUE_BAD_WORKERS", '{"tasks": 3}')

    assert settings().poison == rule
    assert settings().bad_workers == WorkerRule(tasks=3)


@pytest.mark.parametrize("given_value", ["never", "3", {"workers": 0}, {"worker": 2}, 7])
def test_an_invalid_poison_rule_is_refused(given_value: object) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(poison=given_value)

    assert raised.value.setting.startswith("poison")


def test_a_word_enables_or_disables_the_rule_of_bad_workers() -> None:
    assert not settings(bad_workers=False).bad_workers.enabled
    assert settings(bad_workers="on").bad_workers == WorkerRule()
    with pytest.raises(ConfigError):
        settings(bad_workers={"share": 0})


@pytest.mark.parametrize(
    ("profile", "rule"),
    [("factory", PoisonRule()), ("reference", NO_POISON), ("automechanica", NO_POISON)],
)
def test_only_the_profile_of_document_b_has_poison_pills_by_default(
    profile: str, rule: PoisonRule
) -> None:
    assert settings(profile=profile).poison == rule
    assert settings(profile=profile, poison="document-b").poison == DOCUMENT_B
