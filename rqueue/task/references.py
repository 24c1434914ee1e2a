"""References in a task's inputs: `task:<id>:output` and `artifact:<id>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.errors import InvalidTask
from rqueue.task.codec import decode
from rqueue.task.ids import ArtifactId, TaskId
from rqueue.task.state import FINAL, State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.artifact import Artifact
    from rqueue.task.dag import Trigger
    from rqueue.task.spec import TaskSpec


OUTPUT = re.compile(r"task:(?P<task>[^:]+):output")
ARTIFACT = "artifact:"
RULE = "is a reference such as task:<id>:output or artifact:<id>"
PREVIOUS = "previous"
Reference = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Output:
    """The future result of a task, given as an argument: the argument is filled in when the task
    that gets it is claimed, and checked then.
    """

    reference: str


# The output of the previous task, or a list of them where there are several. It fits every type:
# the value is only known later.
previous: Any = Output(PREVIOUS)


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Reference]]:
    """The given arguments, and the references of those that outputs will fill."""
    later = {
        name: reference_in(name, value) for name, value in arguments.items() if is_output(value)
    }
    return {name: value for name, value in arguments.items() if name not in later}, later


def is_output(value: object) -> bool:
    """Whether an argument is an output, or a list that begins with one."""
    return isinstance(value, Output) or (
        isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Output)
    )


def reference_in(name: str, value: Any) -> Reference:
    """The reference of an output argument, or the list of them."""
    if isinstance(value, Output):
        return value.reference
    if not all(isinstance(one, Output) for one in value):
        raise InvalidTask(f"arguments.{name}", "is a list of outputs and other values")
    return [one.reference for one in value]


def as_list(given: Reference) -> Sequence[str]:
    """One or several references as a sequence."""
    return [given] if isinstance(given, str) else given


def output_of(task: TaskId) -> str:
    """The reference to a task's output."""
    return ":".join(("task", task, "output"))


def task_in(reference: str) -> TaskId | None:
    """The task of a reference to an output; None for another reference."""
    found = OUTPUT.fullmatch(reference)
    if found is None:
        return None
    try:
        return TaskId.parse(found["task"])
    except InvalidTask:
        return None


def tasks_in(references: Iterable[str]) -> list[TaskId]:
    """The tasks of references to outputs, each once."""
    found = (task_in(reference) for reference in references)
    return list(dict.fromkeys(task for task in found if task is not None))


def artifact_in(reference: str) -> ArtifactId | None:
    """The artifact of a reference; None for another reference."""
    # Only with its prefix: other artifact references belong to other systems.
    if not reference.startswith(f"{ARTIFACT}{ArtifactId.PREFIX}_"):
        return None
    try:
        return ArtifactId.parse(reference.removeprefix(ARTIFACT))
    except InvalidTask:
        return None


def artifacts_in(references: Iterable[str]) -> list[ArtifactId]:
    """The artifacts of references, each once."""
    found = (artifact_in(reference) for reference in references)
    return list(dict.fromkeys(one for one in found if one is not None))


class TaskOutput(NamedTuple):
    """The state of a task, None where there is none, and the bytes of its result."""

    state: State | None
    result: bytes = b""


class ResolvedInputs(NamedTuple):
    """A task's payload with its inputs filled in, and the values of its context_refs by
    reference.
    """

    payload: Any
    references: dict[str, Any]


def outputs_wanted(spec: TaskSpec) -> list[TaskId]:
    """The tasks whose outputs a task receives."""
    return tasks_in([*spec.references(), *spec.context_refs])


def artifacts_wanted(spec: TaskSpec) -> list[ArtifactId]:
    """The artifacts that a task receives."""
    return artifacts_in([*spec.references(), *spec.context_refs])


def resolve_inputs(
    spec: TaskSpec,
    found: Mapping[TaskId, TaskOutput],
    artifacts: Mapping[ArtifactId, Artifact] | None = None,
) -> ResolvedInputs:
    """Fills in a task's inputs; raises InvalidTask with the reference that has no value. An
    argument gets an artifact's metadata as JSON.
    """
    known = artifacts or {}

    def value(field: str, reference: str) -> JsonValue:
        artifact = artifact_in(reference)
        if artifact is not None:
            return known[artifact].model_dump(mode="json", exclude_none=True)
        task = task_in(reference)
        if task is None:
            raise InvalidTask(field, f"{reference} refers to no task")
        return output(field, task, found[task], spec.trigger)

    payload = spec.payload
    if spec.inputs and isinstance(payload, Mapping):
        filled: dict[str, Any] = {
            name: value(f"inputs.{name}", one)
            if isinstance(one, str)
            else [value(f"inputs.{name}", each) for each in one]
            for name, one in spec.inputs.items()
        }
        payload = {**payload, **filled}
    references: dict[str, Any] = {}
    for one in spec.context_refs:
        artifact = artifact_in(one)
        if artifact is not None:
            references[one] = known[artifact]
        elif task_in(one) is not None:
            references[one] = value("context_refs", one)
    return ResolvedInputs(payload, references)


def output(field: str, task: TaskId, found: TaskOutput, trigger: Trigger) -> JsonValue:
    """The result of a task. One that did not complete is None for tasks with the trigger all_done,
    and one that has not ended also for those with one_failed.
    """
    state = found.state
    if state is State.COMPLETED:
        return decode(found.result, field=field) if found.result else None
    if state is None:
        raise InvalidTask(field, f"{task} was not found: never submitted, or ended and expired")
    if trigger == "one_failed" or (trigger == "all_done" and state in FINAL):
        return None
    if state in FINAL:
        raise InvalidTask(field, f"{task} is {state} and has no output")
    raise InvalidTask(field, f"{task} is {state} and has no output yet")
