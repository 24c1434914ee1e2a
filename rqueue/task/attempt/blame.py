"""Blame for failures: when a task is a poison pill, and when a worker is drained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rqueue.task.attempt.breaker import UNCOUNTED
from rqueue.task.attempt.outcome import Cause, Failed, Lost, Reason
from rqueue.task.fields import refusal
from rqueue.task.state import State

DAY_SEC = 86_400
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
ON, OFF = "on", "off"


class Culprit(StrEnum):
    """What a failure may be blamed on."""

    TASK = "task"
    WORKER = "worker"
    TYPE = "type"


class PoisonRule(BaseModel):
    """When a task is a poison pill: by how many workers it must have been failed, and how often.
    The defaults act before the third attempt.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    workers: Annotated[int, Field(ge=1, le=100)] = 2
    attempts: Annotated[int, Field(ge=1, le=1000)] = 2


class WorkerRule(BaseModel):
    """When a worker is drained: how many tasks it has failed that another worker then completed,
    which share of its work in such types that must be, in which time, and which share of the fleet
    may be drained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    tasks: Annotated[int, Field(ge=1, le=1000)] = 5
    share: Share = 0.5
    window_sec: Annotated[float, Field(ge=1, le=DAY_SEC, allow_inf_nan=False)] = 300
    fleet_share: Share = 0.5


NO_POISON = PoisonRule(enabled=False)
# Document B's rule: with its three attempts it marks a poison pill, but saves no attempt.
DOCUMENT_B = PoisonRule(workers=2, attempts=3)
POISON: Mapping[str, BaseModel] = {ON: PoisonRule(), OFF: NO_POISON, "document-b": DOCUMENT_B}
BAD_WORKERS: Mapping[str, BaseModel] = {ON: WorkerRule(), OFF: WorkerRule(enabled=False)}


def named(value: object, words: Mapping[str, BaseModel]) -> object:
    """A rule by its name, by a boolean as YAML reads `on` and `off`, or as the JSON of an
    environment variable; other values are returned unchanged.
    """
    if isinstance(value, bool):
        value = ON if value else OFF
    if not isinstance(value, str):
        return value
    if value in words:
        return words[value]
    try:
        found = json.loads(value)
    except ValueError:
        raise refusal(f"is one of {', '.join(words)}, or a rule of its own") from None
    return named(found, words) if isinstance(found, bool) else found


Poison = Annotated[PoisonRule, BeforeValidator(lambda value: named(value, POISON))]
BadWorkers = Annotated[WorkerRule, BeforeValidator(lambda value: named(value, BAD_WORKERS))]
# Prefix of a worker that failed the task in a way that does not count against the task.
DOUBT = "?"
# How many such names are stored: the last ones.
KEPT = 3
# After so many other failures of the type in a row by the same worker, the task is not blamed.
PATTERN = 2
# Reasons that are the task's own, and those that tasks beside it may cause as well.
OWN = frozenset({Reason.ERROR, Reason.INVALID_OUTPUT})
SHARED = frozenset({Reason.TIMEOUT, Reason.CRASH})
NO_CULPRITS: frozenset[Culprit] = frozenset()


def suspects(outcome: Failed | Lost, in_a_row: int = 0) -> frozenset[Culprit]:
    """What the failure may be blamed on. `in_a_row` is how many other tasks of the type its worker
    has failed since it last completed one.

    A lost worker is gone and is not blamed.
    """
    match outcome:
        case Lost(state=State.CLAIMED):
            return NO_CULPRITS
        case Lost(exclusive=exclusive):
            return frozenset({Culprit.TASK, Culprit.TYPE} if exclusive else {Culprit.TYPE})
        case Failed(reason=reason) if reason in UNCOUNTED:
            return NO_CULPRITS
        case Failed(cause=Cause.REQUESTED):
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
    return family in OWN or (family in SHARED and outcome.exclusive)


def witnesses(
    before: tuple[str, ...], worker: str, found: frozenset[Culprit], rule: PoisonRule
) -> tuple[str, ...]:
    """The workers that failed a task, including this failure: those whose failures count against
    the task first, each once, and no more than the rule needs.
    """
    sure = blamed_workers(before)
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
    return len(blamed_workers(witnesses)) >= rule.workers and spent >= rule.attempts


def blamed_workers(witnesses: tuple[str, ...]) -> list[str]:
    """The workers whose failures count against the task."""
    return [name for name in witnesses if not name.startswith(DOUBT)]


def failed_elsewhere(witnesses: tuple[str, ...], worker: str) -> list[str]:
    """The workers that failed a task which another one has completed."""
    names = dict.fromkeys(name.removeprefix(DOUBT) for name in witnesses)
    return [name for name in names if name != worker]
