"""Whether a failed attempt is tried again, and when: one decision for worker and reaper."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from rqueue.model.attempt import Failed, Lost, Reason
from rqueue.model.blame import NO_POISON, PoisonRule
from rqueue.model.breaker import NO_BREAKER, BreakerRule
from rqueue.model.checked import YEAR_SEC
from rqueue.model.retry import FACTORY, RetryPolicy
from rqueue.model.state import State
from rqueue.policy.blame import is_poison, suspects, witnesses

if TYPE_CHECKING:
    from random import Random

# Claims beyond the failures of a task until it is no longer taken in company.
UNHEARD = 3
LOST_WORKER = "lost_worker"
# More than any cap, and still a float when multiplied by a year.
BEYOND = 1e300


@dataclass(frozen=True, slots=True)
class Facts:
    """What the task has behind it, before this failure: `failed_by` is who has failed it. And whose
    failure this is, and how many other tasks of its type that worker has just failed in a row.
    """

    attempts: int = 0
    reclaims: int = 0
    failed_by: tuple[str, ...] = ()
    worker: str = ""
    in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class RetryRules:
    """What the queue and the task allow."""

    policy: RetryPolicy = FACTORY
    max_attempts: int = 3
    lost_worker_counts: bool = True
    max_reclaims: int = 10
    breaker: BreakerRule = NO_BREAKER
    poison: PoisonRule = NO_POISON


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after the delay; the counters, and who failed it, as they are to be written."""

    delay_sec: float
    attempts: int
    reclaims: int
    failed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bury:
    """To the dead letters; the counters, and who failed it, as they are to be written. A poison
    pill is given up whatever attempts are left.
    """

    reason: str
    attempts: int
    reclaims: int
    failed_by: tuple[str, ...] = ()
    poison: bool = False


def decide(outcome: Failed | Lost, facts: Facts, rules: RetryRules, random: Random) -> Again | Bury:
    """What becomes of a task whose attempt ended so."""
    match outcome:
        case Failed(reason=Reason.CLAIM_EXPIRED) | Lost(state=State.CLAIMED):
            # It never started, so there is nothing to blame on it and nothing to wait for.
            return Again(0.0, facts.attempts, facts.reclaims, facts.failed_by)
        case Failed():
            found = after_failure(outcome, facts, rules, random)
        case Lost():
            found = after_loss(facts, rules, random)
        case _:
            assert_never(outcome)
    return blamed(found, outcome, facts, rules)


def blamed(
    found: Again | Bury, outcome: Failed | Lost, facts: Facts, rules: RetryRules
) -> Again | Bury:
    """The decision with whose fault it was: what fails wherever it runs is not tried again."""
    culprits = suspects(outcome, facts.in_a_row)
    failed_by = witnesses(facts.failed_by, facts.worker, culprits, rules.poison)
    spent = found.attempts + (0 if rules.lost_worker_counts else found.reclaims)
    if not is_poison(failed_by, spent, culprits, rules.poison):
        return replace(found, failed_by=failed_by)
    reason = outcome.reason if isinstance(outcome, Failed) else Reason.HEARTBEAT_TIMEOUT
    return Bury(reason, found.attempts, found.reclaims, failed_by, poison=True)


def after_failure(outcome: Failed, facts: Facts, rules: RetryRules, random: Random) -> Again | Bury:
    """An attempt is spent; what is left of them, and the reason, decide."""
    attempts = facts.attempts + 1
    if outcome.permanent or not retryable(outcome.reason, rules.policy):
        return Bury(outcome.reason, attempts, facts.reclaims)
    if attempts >= rules.max_attempts:
        return Bury(outcome.reason, attempts, facts.reclaims)
    if outcome.retry_after is not None:
        # In this order NaN, which a handler may compute, means at once.
        wait = min(max(0.0, outcome.retry_after), float(YEAR_SEC))
    else:
        wait = delay(rules.policy, attempts, random)
    return Again(wait, attempts, facts.reclaims)


def after_loss(facts: Facts, rules: RetryRules, random: Random) -> Again | Bury:
    """A worker was lost with the task started: an attempt, or only a reclaim, as the queue says."""
    reclaimed = Facts(facts.attempts, facts.reclaims + 1)
    if rules.lost_worker_counts:
        failure = Failed(Reason.HEARTBEAT_TIMEOUT, "the worker was lost")
        found = after_failure(failure, reclaimed, rules, random)
        # It has waited for a whole lease, and nothing says that it failed: it waits no longer.
        return replace(found, delay_sec=0.0) if isinstance(found, Again) else found
    if reclaimed.reclaims > rules.max_reclaims:
        return Bury(LOST_WORKER, reclaimed.attempts, reclaimed.reclaims)
    return Again(0.0, reclaimed.attempts, reclaimed.reclaims)


def runs_alone(attempts: int, reclaims: int, rules: RetryRules) -> bool:
    """Whether a task is claimed alone after a loss that left it so: it may be what kills its
    workers. A first loss is mostly the worker's; but never is the last chance taken in company.
    """
    return reclaims > 1 or attempts + 1 >= rules.max_attempts


def lost_unheard(claims: int, attempts: int) -> bool:
    """Whether a task that nobody heard begin is claimed alone after a loss: taken so much more
    often than it failed, it may be what kills its workers before they can tell. Alone it begins
    with its claim, and its next loss counts.
    """
    return claims - attempts >= UNHEARD


def retryable(reason: Reason, policy: RetryPolicy) -> bool:
    """Whether the policy tries this reason again; a word or its family counts, refusal first."""
    words = {reason, reason.family}
    if words.intersection(policy.no_retry_on):
        return False
    if not policy.retry_on or reason.family is Reason.ERROR:
        return True
    return bool(words.intersection(policy.retry_on))


def delay(policy: RetryPolicy, attempts: int, random: Random) -> float:
    """Seconds to wait after the attempt with this number failed; counted from 1.

    Always from the policy's own initial delay, which nothing overwrites: it does not compound.
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
    """base ** exponent, where beyond all floats is simply very long."""
    try:
        return min(math.pow(base, exponent), BEYOND)
    except OverflowError:
        return BEYOND
