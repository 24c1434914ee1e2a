"""The stored form of a decision about a failed attempt, the same for worker and reaper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rqueue.task.attempt.breaker import breaker_words
from rqueue.task.attempt.outcome import AttemptRecord, Failed, Lost, Reason
from rqueue.task.attempt.retry import DeadLetter, Facts, RetryLater, RetryRules, decide
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from rqueue.settings.profiles import Profile
    from rqueue.task.attempt.blame import PoisonRule
    from rqueue.task.attempt.breaker import Breakers
    from rqueue.task.attempt.retry import RetryPolicy
    from rqueue.task.spec import TaskSpec
    from rqueue.task.task import Task


# Error texts are cut: a traceback of megabytes must not fill the server.
MAX_ERROR = 8192
# Reasons for which a run is stopped from outside: its thread may continue and cause costs.
STOPPED = frozenset({Reason.TIMEOUT, Reason.BUDGET_EXCEEDED, Reason.CANCELLED})


class FailureTerms(Protocol):
    """A queue's settings about failures."""

    @property
    def retry(self) -> RetryPolicy | None: ...

    @property
    def preset(self) -> Profile: ...

    @property
    def lost_worker_counts(self) -> bool: ...

    @property
    def max_reclaims(self) -> int: ...

    @property
    def breakers(self) -> Breakers: ...

    @property
    def poison(self) -> PoisonRule: ...


class Ruling(NamedTuple):
    """A decision as moves read it: milliseconds until the next attempt or "" for dead, the counters
    to be stored, the stored reason, the attempt's record in JSON, the type, the report to its
    breaker, who failed it, and 1 for a poison pill.
    """

    delay: str
    attempts: int
    reclaims: int
    reason: str
    record: str
    type: str
    breaker: str
    failed_by: str = ""
    poison: str = ""


class Report(NamedTuple):
    """The facts of a failed attempt: its worker, the error, the time, the model, and how many other
    tasks of the type that worker had just failed in a row.
    """

    agent: str
    error: str
    at: datetime
    model: str | None = None
    in_a_row: int = 0


def rule(
    task: Task, outcome: Failed | Lost, report: Report, rules: RetryRules, *, random: Random
) -> Ruling:
    """The decision about a task whose attempt ended with this outcome, as it is stored."""
    facts = Facts(
        task.attempts, task.reclaims, task.failed_by, report.agent, in_a_row=report.in_a_row
    )
    decision = decide(outcome, facts, rules, random)
    reason = outcome.reason if isinstance(outcome, Failed) else Reason.HEARTBEAT_TIMEOUT
    record = AttemptRecord(
        attempt=decision.attempts,
        epoch=task.epoch,
        agent=report.agent,
        reason=reason,
        error=storable(report.error),
        model=report.model,
        at=report.at,
    )
    unbegun = isinstance(outcome, Lost) and outcome.state is State.CLAIMED
    counted = Reason.CLAIM_EXPIRED if unbegun else reason
    dead = isinstance(decision, DeadLetter)
    poison = isinstance(decision, DeadLetter) and decision.poison
    return Ruling(
        delay_of(decision),
        decision.attempts,
        decision.reclaims,
        decision.reason if isinstance(decision, DeadLetter) else str(reason),
        record.model_dump_json(exclude_defaults=True),
        task.type,
        # A poison pill is not counted against its type.
        "" if poison else breaker_words(rules.breaker, counted, dead=dead),
        " ".join(decision.failed_by),
        "1" if poison else "",
    )


def owes(outcome: Failed) -> str:
    """Whether the code of a failed run may continue and report a cost later, as moves read it."""
    return "1" if outcome.reason in STOPPED else ""


def rules_of(spec: TaskSpec, terms: FailureTerms) -> RetryRules:
    """The retry rules of a task: its own, else its queue's."""
    return RetryRules(
        policy=spec.retry or terms.retry or terms.preset.retry,
        max_attempts=spec.max_attempts,
        lost_worker_counts=terms.lost_worker_counts,
        max_reclaims=terms.max_reclaims,
        breaker=terms.breakers.of(spec.type),
        poison=terms.poison,
    )


def refused(task: Task) -> Failed | None:
    """How a worker ends a task that it must not start; None where it may start it.

    A task that cannot be read becomes dead immediately: each attempt would fail the same way.
    """
    if task.unreadable is None:
        return None
    message = f"the task's definition cannot be read: {task.unreadable}"
    return Failed(Reason.ERROR, message, permanent=True)


def delay_of(decision: RetryLater | DeadLetter) -> str:
    """The delay as moves read it."""
    return str(round(decision.delay_sec * 1000)) if isinstance(decision, RetryLater) else ""


def storable(text: str) -> str:
    """An error's text as every store can hold it, cut to its beginning."""
    cut = text[:MAX_ERROR].replace("\0", "\ufffd")
    return cut.encode(errors="replace").decode()
