"""References in a task's inputs: `task:<id>:output` and `artifact:<id>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqueue.errors import InvalidTask
from rqueue.model.ids import ArtifactId, TaskId

OUTPUT = re.compile(r"task:(?P<task>[^:]+):output")
ARTIFACT = "artifact:"
RULE = "is a reference such as task:<id>:output or artifact:<id>"
PREVIOUS = "previous"

Reference = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Output:
    """What a task will have returned, given as an argument before it has: the argument is filled
    in when the task that is given it is claimed, and checked then.
    """

    reference: str


# Stands for the output of the task before, or for the list of them, where they have no name yet.
# It fits every type: what it will be is known only when it is there.
previous: Any = Output(PREVIOUS)


def divided(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Reference]]:
    """The arguments that are there, and the references of those that outputs will fill."""
    later = {name: reference_in(name, value) for name, value in arguments.items() if waits(value)}
    return {name: value for name, value in arguments.items() if name not in later}, later


def waits(value: object) -> bool:
    """Whether an argument is an output, or a list that begins with one."""
    return isinstance(value, Output) or (
        isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Output)
    )


def reference_in(name: str, value: Any) -> Reference:
    """The reference of an argument that waits, or the list of them."""
    if isinstance(value, Output):
        return value.reference
    if not all(isinstance(one, Output) for one in value):
        raise InvalidTask(f"arguments.{name}", "is a list of outputs and of something else")
    return [one.reference for one in value]


def listed(given: Reference) -> Sequence[str]:
    """One reference, or name, or several."""
    return [given] if isinstance(given, str) else given


def output_of(task: TaskId) -> str:
    """The reference to a task's output."""
    return ":".join(("task", task, "output"))


def task_in(reference: str) -> TaskId | None:
    """The task whose output a reference means; None for a reference to something else."""
    found = OUTPUT.fullmatch(reference)
    if found is None:
        return None
    try:
        return TaskId.parse(found["task"])
    except InvalidTask:
        return None


def tasks_in(references: Iterable[str]) -> list[TaskId]:
    """The tasks whose outputs these references mean, each once."""
    found = (task_in(reference) for reference in references)
    return list(dict.fromkeys(task for task in found if task is not None))


def artifact_in(reference: str) -> ArtifactId | None:
    """The artifact that a reference means; None for a reference to something else."""
    # With its prefix alone: artifacts of other makers are theirs to read.
    if not reference.startswith(f"{ARTIFACT}{ArtifactId.PREFIX}_"):
        return None
    try:
        return ArtifactId.parse(reference.removeprefix(ARTIFACT))
    except InvalidTask:
        return None


def artifacts_in(references: Iterable[str]) -> list[ArtifactId]:
    """The artifacts that these references mean, each once."""
    found = (artifact_in(reference) for reference in references)
    return list(dict.fromkeys(one for one in found if one is not None))
