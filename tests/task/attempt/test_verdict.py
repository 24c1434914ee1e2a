"""The stored decision about a failed attempt."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from rqueue.settings.load import Settings
from rqueue.task.attempt.blame import PoisonRule
from rqueue.task.attempt.breaker import BreakerRule, breaker_words
from rqueue.task.attempt.outcome import AttemptRecord, Failed, Lost, Reason
from rqueue.task.attempt.retry import RetryPolicy, RetryRules
from rqueue.task.attempt.verdict import MAX_ERROR, Report, Ruling, owes, refused, rule, rules_of
from rqueue.task.ids import new_task_id
from rqueue.task.spec import TaskSpec
from rqueue.task.state import State
from rqueue.task.task import Task

NOW = datetime(2026, 2, 8, 9, tzinfo=UTC)
ONE_SECOND = RetryPolicy.fixed(1.0, jitter=False)
RULES = RetryRules(policy=ONE_SECOND, max_attempts=3)


def a_task(**fields: Any) -> Task:
    spec = TaskSpec.of(type="code")
    return Task.of(id=new_task_id(), spec=spec, state=State.RUNNING, created_at=NOW, **fields)


def ruled(outcome: Failed | Lost, task: Task, error: str = "boom") -> Ruling:
    return rule(task, outcome, Report("w1", error, NOW), RULES, random=Random(7))


def test_a_retry_has_a_delay_and_a_record() -> None:
    found = ruled(Failed(Reason.TIMEOUT, "boom"), a_task(attempts=1, reclaims=2, epoch=5))

    assert found[:4] == ("1000", 2, 2, "timeout")
    assert AttemptRecord.model_validate_json(found.record) == AttemptRecord(
        attempt=2, epoch=5, agent="w1", reason=Reason.TIMEOUT, error="boom", at=NOW
    )


def test_a_dead_task_has_no_delay() -> None:
    assert ruled(Failed(Reason.ERROR, "no", permanent=True), a_task())[:4] == ("", 1, 0, "error")


def test_a_lost_worker_is_recorded_as_a_heartbeat_timeout() -> None:
    found = ruled(Lost(State.RUNNING), a_task(attempts=2))

    assert found[:4] == ("", 3, 1, "heartbeat_timeout")
    assert AttemptRecord.model_validate_json(found.record).reason is Reason.HEARTBEAT_TIMEOUT


def test_a_poison_pill_is_dead_and_does_not_count_against_its_type() -> None:
    breaker = BreakerRule()
    rules = replace(RULES, breaker=breaker, poison=PoisonRule())
    outcome, again = Failed(Reason.ERROR, "boom"), a_task(attempts=1, failed_by=("w2",))

    found = rule(again, outcome, Report("w1", "boom", NOW), rules, random=Random(7))
    first = rule(a_task(), outcome, Report("w1", "boom", NOW), rules, random=Random(7))

    assert found[:4] == ("", 2, 0, "error")
    assert found[-3:] == ("", "w2 w1", "1")
    assert first[-3:] == (breaker_words(breaker, Reason.ERROR, dead=False), "w1", "")


def test_a_task_that_never_started_is_released_immediately() -> None:
    assert ruled(Lost(State.CLAIMED), a_task(attempts=2))[:3] == ("0", 2, 0)


@pytest.mark.parametrize(
    ("error", "kept"),
    [("nul\0", "nul\ufffd"), ("\ud800", "?"), ("x" * 10_000, "x" * MAX_ERROR)],
)
def test_a_stored_error_is_bounded_and_valid_utf8(error: str, kept: str) -> None:
    found = ruled(Failed(Reason.ERROR, ""), a_task(), error)

    assert AttemptRecord.model_validate_json(found.record).error == kept


@pytest.mark.parametrize("reason", Reason)
def test_only_code_that_was_stopped_from_outside_may_report_a_cost_later(reason: Reason) -> None:
    stopped = {Reason.TIMEOUT, Reason.BUDGET_EXCEEDED, Reason.CANCELLED}

    assert owes(Failed(reason, "")) == ("1" if reason in stopped else "")


def test_rules_of_a_task_override_those_of_its_queue() -> None:
    settings = Settings(name="q", url="redis://nowhere", retry=ONE_SECOND, max_reclaims=4)
    own = TaskSpec.of(type="code", retry=RetryPolicy.immediate(), max_attempts=9)

    queues = RetryRules(ONE_SECOND, 3, True, 4, poison=settings.poison)
    assert rules_of(TaskSpec.of(type="code"), settings) == queues
    assert rules_of(own, settings) == replace(
        queues, policy=RetryPolicy.immediate(), max_attempts=9
    )
    preset = rules_of(own.model_copy(update={"retry": None}), Settings(name="q", url="redis://x"))
    assert preset.policy == settings.preset.retry


def test_a_task_that_can_be_read_is_not_refused() -> None:
    assert refused(a_task(damaged=("notes",))) is None


def test_a_task_that_cannot_be_read_is_dead_at_the_first_attempt() -> None:
    outcome = refused(a_task(unreadable="definition: is not JSON"))

    assert outcome is not None
    assert outcome.message == "the task's definition cannot be read: definition: is not JSON"
    assert ruled(outcome, a_task()).delay == ""
