"""What becomes of a failed attempt, in the words that are stored: for worker and reaper alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rqueue.model.attempt import AttemptRecord, Failed, Lost, Reason
from rqueue.model.state import State
from rqueue.policy.breaker import told
from rqueue.policy.retry import Again, Bury, Facts, RetryRules, decide

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from rqueue.model.blame import PoisonRule
    from rqueue.model.breaker import Breakers
    from rqueue.model.profile import Profile
    from rqueue.model.retry import RetryPolicy
    from rqueue.model.spec import TaskSpec
    from rqueue.model.task import Task

# Error texts are cut: a traceback of megabytes must not fill the server.
MAX_ERROR = 8192
# What stops a run from outside: a thread cannot be ended, and may be amid a call that costs.
STOPPED = frozenset({Reason.TIMEOUT, Reason.BUDGET_EXCEEDED, Reason.CANCELLED})


class FailureTerms(Protocol):
    """What a queue's settings say about failures."""

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
    """A decision as scripts read it: milliseconds until the next attempt or "" for dead, the
    counters as they are to be written, the word kept with the task, the attempt's record in JSON,
    its type, what it says to the breaker of that, who has failed it, and 1 for a poison pill.
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
    """What is known of an attempt's end: who had it, what was seen, when, by which model, and how
    many other tasks of its type failed there in a row just before.
    """

    agent: str
    error: str
    at: datetime
    model: str | None = None
    in_a_row: int = 0


def rule(
    task: Task, outcome: Failed | Lost, report: Report, rules: RetryRules, *, random: Random
) -> Ruling:
    """What is written of a task whose attempt ended so."""
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
    dead = isinstance(decision, Bury)
    poison = isinstance(decision, Bury) and decision.poison
    return Ruling(
        delay_of(decision),
        decision.attempts,
        decision.reclaims,
        decision.reason if isinstance(decision, Bury) else str(reason),
        record.model_dump_json(exclude_defaults=True),
        task.type,
        # Where the task is found guilty, its type is not.
        "" if poison else told(rules.breaker, counted, dead=dead),
        " ".join(decision.failed_by),
        "1" if poison else "",
    )


def owes(outcome: Failed) -> str:
    """Whether the code of a failed run may go on and say later what it has cost, as scripts read
    it.
    """
    return "1" if outcome.reason in STOPPED else ""


def rules_of(spec: TaskSpec, terms: FailureTerms) -> RetryRules:
    """The retry rules of a task: its own where it says so, else its queue's."""
    return RetryRules(
        policy=spec.retry or terms.retry or terms.preset.retry,
        max_attempts=spec.max_attempts,
        lost_worker_counts=terms.lost_worker_counts,
        max_reclaims=terms.max_reclaims,
        breaker=terms.breakers.of(spec.type),
        poison=terms.poison,
    )


def refused(task: Task) -> Failed | None:
    """How a worker ends a task that it must not try, before it starts it; None where it may.

    Nobody can run a task that cannot be read, so it goes to the dead at once, for a person to
    look at: each attempt would only find the same.
    """
    if task.unreadable is None:
        return None
    message = f"the task's definition cannot be read: {task.unreadable}"
    return Failed(Reason.ERROR, message, permanent=True)


def delay_of(decision: Again | Bury) -> str:
    """The delay as scripts read it."""
    return str(round(decision.delay_sec * 1000)) if isinstance(decision, Again) else ""


def storable(text: str) -> str:
    """An error's text as every store can keep it: whatever a handler raised, its start is kept."""
    cut = text[:MAX_ERROR].replace("\0", "\ufffd")
    return cut.encode(errors="replace").decode()
