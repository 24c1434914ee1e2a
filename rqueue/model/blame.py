"""Whose fault failures are: when a task is a poison pill, and when a worker is sent home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rqueue.model.checked import refusal

DAY_SEC = 86_400
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
ON, OFF = "on", "off"


class Culprit(StrEnum):
    """What a failure may be the fault of."""

    TASK = "task"
    WORKER = "worker"
    TYPE = "type"


class PoisonRule(BaseModel):
    """When a task is given up because it fails wherever it runs: by how many workers it must have
    been failed, and how often. The defaults act before the third attempt.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    workers: Annotated[int, Field(ge=1, le=100)] = 2
    attempts: Annotated[int, Field(ge=1, le=1000)] = 2


class WorkerRule(BaseModel):
    """When a worker is sent home: how many tasks it has failed that another one then completed,
    which share of its work in such types that must be, in which time, and which share of the fleet
    is sent home at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    tasks: Annotated[int, Field(ge=1, le=1000)] = 5
    share: Share = 0.5
    window_sec: Annotated[float, Field(ge=1, le=DAY_SEC, allow_inf_nan=False)] = 300
    fleet_share: Share = 0.5


NO_POISON = PoisonRule(enabled=False)
# Document B's own rule: with its three attempts it names a pill, but saves none of them.
DOCUMENT_B = PoisonRule(workers=2, attempts=3)
POISON: Mapping[str, BaseModel] = {ON: PoisonRule(), OFF: NO_POISON, "document-b": DOCUMENT_B}
BAD_WORKERS: Mapping[str, BaseModel] = {ON: WorkerRule(), OFF: WorkerRule(enabled=False)}


def named(value: object, words: Mapping[str, BaseModel]) -> object:
    """A rule by its name, by yes or no as YAML reads `on` and `off`, or as the JSON of a variable
    of the environment; what is none of these is left as it is.
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
