"""Retry policies and the decision about a failed attempt, the same for worker and reaper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, Self, assert_never

from pydantic import BeforeValidator, Field, model_validator

from rqueue.task.attempt.blame import NO_POISON, PoisonRule, is_poison, suspects, witnesses
from rqueue.task.attempt.breaker import NO_BREAKER, BreakerRule
from rqueue.task.attempt.outcome import Failed, Lost, Reason
from rqueue.task.fields import YEAR_SEC, Checked, Seconds, refusal
from rqueue.task.state import State

if TYPE_CHECKING:
    from random import Random


Strategy = Literal["exponential", "quadratic", "linear", "fixed", "immediate", "list"]
JitterKind = Literal["additive", "proportional"]
Factor = Annotated[float, Field(ge=0, le=1000, strict=True, allow_inf_nan=False)]
DEFAULT_SHARE: dict[JitterKind, float] = {"additive": 0.1, "proportional": 0.5}
NEVER = (Reason.AUTH_FAILURE, Reason.BUDGET_EXCEEDED, Reason.CANCELLED)


def share(value: object) -> bool | float:
    """A boolean, or a share from 0 to 1."""
    if isinstance(value, int | float) and 0 <= value <= 1:
        return value
    raise refusal("is true, false, or a share of the delay from 0 to 1")


Jitter = Annotated[bool | float, BeforeValidator(share)]


class RetryPolicy(Checked):
    """When a failed attempt is retried. The defaults are document B's.

    `jitter` is a share of the delay, or True for the usual share of its kind: additive adds up to
    it (10 %), proportional spreads by it to both sides (50 %). It is applied after the cap, so a
    delay may exceed `max_delay_sec`, unless `clamp_after_jitter`.

    An empty `retry_on` retries every reason that is not in `no_retry_on`. Otherwise only the listed
    reasons are retried; `error`, which is everything else, stays retryable.
    """

    strategy: Strategy = "exponential"
    initial_delay_sec: Seconds = 10.0
    backoff_multiplier: Factor = 2.0
    power: Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)] = 2.0
    max_delay_sec: Seconds | None = 300.0
    jitter: Jitter = True
    jitter_kind: JitterKind = "proportional"
    clamp_after_jitter: bool = False
    delays: Annotated[tuple[Seconds, ...], Field(max_length=1000)] = ()
    retry_on: tuple[Reason, ...] = ()
    no_retry_on: tuple[Reason, ...] = NEVER

    @model_validator(mode="after")
    def check_delays(self) -> Self:
        """The strategy `list` needs delays; others must not have them."""
        if (self.strategy == "list") != bool(self.delays):
            raise refusal("delays are given with the strategy list, and only with it")
        return self

    @property
    def share(self) -> float:
        """The jitter as a share of the delay."""
        if isinstance(self.jitter, bool):
            return DEFAULT_SHARE[self.jitter_kind] if self.jitter else 0.0
        return self.jitter

    @classmethod
    def exponential(
        cls,
        initial: float = 10.0,
        multiplier: float = 2.0,
        *,
        max_delay: float | None = 300.0,
        jitter: bool | float = True,
        jitter_kind: JitterKind = "proportional",
    ) -> Self:
        """initial * multiplier ** (attempts - 1)."""
        return cls.parse(
            {
                "initial_delay_sec": initial,
                "backoff_multiplier": multiplier,
                "max_delay_sec": max_delay,
                "jitter": jitter,
                "jitter_kind": jitter_kind,
            },
            within="retry",
        )

    @classmethod
    def quadratic(
        cls, initial: float = 5.0, *, max_delay: float | None = None, jitter: bool | float = False
    ) -> Self:
        """initial * attempts ** 2."""
        return cls.simple("quadratic", initial, max_delay, jitter)

    @classmethod
    def linear(
        cls, initial: float = 10.0, *, max_delay: float | None = None, jitter: bool | float = False
    ) -> Self:
        """initial * attempts."""
        return cls.simple("linear", initial, max_delay, jitter)

    @classmethod
    def fixed(cls, delay: float = 10.0, *, jitter: bool | float = False) -> Self:
        """The same delay each time."""
        return cls.simple("fixed", delay, None, jitter)

    @classmethod
    def immediate(cls) -> Self:
        """No delay at all."""
        return cls.simple("immediate", 0.0, None, False)

    @classmethod
    def list(cls, delays: Sequence[float]) -> Self:
        """These delays in order; the last one is repeated."""
        fields = {"strategy": "list", "delays": delays, "max_delay_sec": None, "jitter": False}
        return cls.parse(fields, within="retry")

    @classmethod
    def simple(
        cls, strategy: Strategy, initial: float, max_delay: float | None, jitter: bool | float
    ) -> Self:
        """A policy with a delay, a maximum and a jitter only."""
        fields = {
            "strategy": strategy,
            "initial_delay_sec": initial,
            "max_delay_sec": max_delay,
            "jitter": jitter,
        }
        return cls.parse(fields, within="retry")


REFERENCE = RetryPolicy.exponential(60.0, max_delay=3600.0, jitter=0.1, jitter_kind="additive")
FACTORY = RetryPolicy()
AUTOMECHANICA = RetryPolicy.quadratic(5.0)
# How many claims more than failures make a task exclusive.
UNSTARTED_CLAIMS = 3
LOST_WORKER = "lost_worker"
# Above every cap, and still a finite float when multiplied by a year.
BEYOND = 1e300


@dataclass(frozen=True, slots=True)
class Facts:
    """The task's counters before this failure, and who failed it; and the worker of this failure,
    with how many other tasks of the type it has just failed in a row.
    """

    attempts: int = 0
    reclaims: int = 0
    failed_by: tuple[str, ...] = ()
    worker: str = ""
    in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class RetryRules:
    """The rules of the queue and of the task."""

    policy: RetryPolicy = FACTORY
    max_attempts: int = 3
    lost_worker_counts: bool = True
    max_reclaims: int = 10
    breaker: BreakerRule = NO_BREAKER
    poison: PoisonRule = NO_POISON


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Retry after the delay; with the counters and workers to be stored."""

    delay_sec: float
    attempts: int
    reclaims: int
    failed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """To the dead letters; with the counters and workers to be stored. A poison pill is dead
    whatever attempts are left.
    """

    reason: str
    attempts: int
    reclaims: int
    failed_by: tuple[str, ...] = ()
    poison: bool = False


def decide(
    outcome: Failed | Lost, facts: Facts, rules: RetryRules, random: Random
) -> RetryLater | DeadLetter:
    """Decides what becomes of a task whose attempt ended with this outcome."""
    match outcome:
        case Failed(reason=Reason.CLAIM_EXPIRED) | Lost(state=State.CLAIMED):
            # It never started: no failure to count, and no reason to wait.
            return RetryLater(0.0, facts.attempts, facts.reclaims, facts.failed_by)
        case Failed():
            found = after_failure(outcome, facts, rules, random)
        case Lost():
            found = after_loss(facts, rules, random)
        case _:
            assert_never(outcome)
    return with_blame(found, outcome, facts, rules)


def with_blame(
    found: RetryLater | DeadLetter, outcome: Failed | Lost, facts: Facts, rules: RetryRules
) -> RetryLater | DeadLetter:
    """The decision with the blame added: a poison pill is not retried."""
    culprits = suspects(outcome, facts.in_a_row)
    failed_by = witnesses(facts.failed_by, facts.worker, culprits, rules.poison)
    spent = found.attempts + (0 if rules.lost_worker_counts else found.reclaims)
    if not is_poison(failed_by, spent, culprits, rules.poison):
        return replace(found, failed_by=failed_by)
    reason = outcome.reason if isinstance(outcome, Failed) else Reason.HEARTBEAT_TIMEOUT
    return DeadLetter(reason, found.attempts, found.reclaims, failed_by, poison=True)


def after_failure(
    outcome: Failed, facts: Facts, rules: RetryRules, random: Random
) -> RetryLater | DeadLetter:
    """The decision after a failure: an attempt is spent; those left and the reason decide."""
    attempts = facts.attempts + 1
    if outcome.permanent or not retryable(outcome.reason, rules.policy):
        return DeadLetter(outcome.reason, attempts, facts.reclaims)
    if attempts >= rules.max_attempts:
        return DeadLetter(outcome.reason, attempts, facts.reclaims)
    if outcome.retry_after is not None:
        # In this order NaN, which a handler may compute, gives 0.
        wait = min(max(0.0, outcome.retry_after), float(YEAR_SEC))
    else:
        wait = delay(rules.policy, attempts, random)
    return RetryLater(wait, attempts, facts.reclaims)


def after_loss(facts: Facts, rules: RetryRules, random: Random) -> RetryLater | DeadLetter:
    """The decision after a lost worker that had started the task: it spends an attempt, or counts
    as a reclaim only, by the queue's setting.
    """
    reclaimed = Facts(facts.attempts, facts.reclaims + 1)
    if rules.lost_worker_counts:
        failure = Failed(Reason.HEARTBEAT_TIMEOUT, "the worker was lost")
        found = after_failure(failure, reclaimed, rules, random)
        # No further delay: it has waited for a whole lease, and the task may not be at fault.
        return replace(found, delay_sec=0.0) if isinstance(found, RetryLater) else found
    if reclaimed.reclaims > rules.max_reclaims:
        return DeadLetter(LOST_WORKER, reclaimed.attempts, reclaimed.reclaims)
    return RetryLater(0.0, reclaimed.attempts, reclaimed.reclaims)


def runs_exclusively(attempts: int, reclaims: int, rules: RetryRules) -> bool:
    """Whether a task is exclusive after a loss: it may be what kills its workers. A first loss is
    usually the worker's fault; but the last attempt is always exclusive.
    """
    return reclaims > 1 or attempts + 1 >= rules.max_attempts


def lost_unstarted(claims: int, attempts: int) -> bool:
    """Whether a task that never reported a start becomes exclusive after a loss: claimed so much
    more often than it failed, it may kill its workers before they report. An exclusive task starts
    with its claim, and its next loss counts.
    """
    return claims - attempts >= UNSTARTED_CLAIMS


def retryable(reason: Reason, policy: RetryPolicy) -> bool:
    """Whether the policy retries this reason; a reason or its family matches,
    `no_retry_on` first.
    """
    words = {reason, reason.family}
    if words.intersection(policy.no_retry_on):
        return False
    if not policy.retry_on or reason.family is Reason.ERROR:
        return True
    return bool(words.intersection(policy.retry_on))


def delay(policy: RetryPolicy, attempts: int, random: Random) -> float:
    """Seconds to wait after the attempt with this number failed, counted from 1.

    Always computed from the policy's initial delay: it does not compound.
    """
    cap = float(YEAR_SEC) if policy.max_delay_sec is None else policy.max_delay_sec
    wait = min(backoff(policy, max(1, attempts)), cap)
    if policy.jitter_kind == "additive":
        wait += random.uniform(0.0, policy.share * wait)
    else:
        wait *= random.uniform(1.0 - policy.share, 1.0 + policy.share)
    return min(wait, cap if policy.clamp_after_jitter else float(YEAR_SEC))


def backoff(policy: RetryPolicy, attempts: int) -> float:
    """The delay before cap and jitter."""
    initial = policy.initial_delay_sec
    match policy.strategy:
        case "exponential":
            return initial * power(policy.backoff_multiplier, attempts - 1)
        case "quadratic":
            return initial * power(attempts, policy.power)
        case "linear":
            return initial * attempts
        case "fixed":
            return initial
        case "immediate":
            return 0.0
        case "list":
            return policy.delays[min(attempts, len(policy.delays)) - 1]
        case _:
            assert_never(policy.strategy)


def power(base: float, exponent: float) -> float:
    """base ** exponent, limited to BEYOND."""
    try:
        return min(math.pow(base, exponent), BEYOND)
    except OverflowError:
        return BEYOND
