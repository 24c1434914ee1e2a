"""Whose fault a failed attempt may be, and when that makes its task a poison pill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.attempt import Cause, Failed, Lost, Reason
from rqueue.model.blame import Culprit
from rqueue.model.state import State
from rqueue.policy.breaker import UNCOUNTED

if TYPE_CHECKING:
    from rqueue.model.blame import PoisonRule

# Before the name of a worker that failed the task in a way that says nothing of the task.
DOUBT = "?"
# How many such names are kept: those of the last.
KEPT = 3
# So many other tasks of its type failed in a row by the same worker: the fault is not the task's.
PATTERN = 2
# What a task does itself, whoever runs beside it; what may as well be done to it by those.
OWN = frozenset({Reason.ERROR, Reason.INVALID_OUTPUT})
SHARED = frozenset({Reason.TIMEOUT, Reason.CRASH})

NOBODY: frozenset[Culprit] = frozenset()


def suspects(outcome: Failed | Lost, in_a_row: int = 0) -> frozenset[Culprit]:
    """What the attempt may have failed for: the failure matrix. `in_a_row` is how many other tasks
    of the type its worker has failed since it last completed one.

    A lost worker is gone, and needs no blame.
    """
    match outcome:
        case Lost(state=State.CLAIMED):
            return NOBODY
        case Lost(alone=alone):
            return frozenset({Culprit.TASK, Culprit.TYPE} if alone else {Culprit.TYPE})
        case Failed(reason=reason) if reason in UNCOUNTED:
            return NOBODY
        case Failed(cause=Cause.ASKED):
            return frozenset({Culprit.TYPE})
    found = {Culprit.TYPE}
    if not outcome.permanent:
        found.add(Culprit.WORKER)
    if in_a_row < PATTERN and is_own(outcome):
        found.add(Culprit.TASK)
    return frozenset(found)


def is_own(outcome: Failed) -> bool:
    """Whether the task may have failed by itself."""
    if outcome.cause is not Cause.WITHIN:
        return False
    family = outcome.reason.family
    return family in OWN or (family in SHARED and outcome.alone)


def witnesses(
    before: tuple[str, ...], worker: str, found: frozenset[Culprit], rule: PoisonRule
) -> tuple[str, ...]:
    """Who has failed a task, with this failure: those first whose failures count against it, each
    once, and no more than the rule asks for.
    """
    sure = sure_of(before)
    unsure = [name for name in before if name.startswith(DOUBT)]
    if not worker or not found & {Culprit.TASK, Culprit.WORKER}:
        return before
    if Culprit.TASK in found:
        sure = list(dict.fromkeys([*sure, worker]))
    else:
        unsure = [name for name in unsure if name != DOUBT + worker] + [DOUBT + worker]
    return (*sure[: rule.workers], *unsure[-KEPT:])


def is_poison(
    witnesses: tuple[str, ...], spent: int, found: frozenset[Culprit], rule: PoisonRule
) -> bool:
    """Whether a task is a poison pill, after so many attempts and a failure with these suspects."""
    if not rule.enabled or Culprit.TASK not in found:
        return False
    return len(sure_of(witnesses)) >= rule.workers and spent >= rule.attempts


def sure_of(witnesses: tuple[str, ...]) -> list[str]:
    """Those of them whose failures count against the task."""
    return [name for name in witnesses if not name.startswith(DOUBT)]


def failed_elsewhere(witnesses: tuple[str, ...], worker: str) -> list[str]:
    """The workers whose fault it was that a task failed: another one has completed it."""
    names = dict.fromkeys(name.removeprefix(DOUBT) for name in witnesses)
    return [name for name in names if name != worker]
