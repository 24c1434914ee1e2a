"""What a task is given of others: whether their outputs may be had, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.errors import InvalidTask
from rqueue.model.codec import decode
from rqueue.model.reference import artifact_in, artifacts_in, task_in, tasks_in
from rqueue.model.state import FINAL, State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.artifact import Artifact
    from rqueue.model.dag import Trigger
    from rqueue.model.ids import ArtifactId, TaskId
    from rqueue.model.spec import TaskSpec


class Returned(NamedTuple):
    """How far a task is, None where there is none, and the bytes of what it has returned."""

    state: State | None
    result: bytes = b""


class Given(NamedTuple):
    """A task's payload with its inputs in it, and what it may look at, by reference."""

    payload: Any
    references: dict[str, Any]


def wanted(spec: TaskSpec) -> list[TaskId]:
    """The tasks whose outputs a task is given."""
    return tasks_in([*spec.references(), *spec.context_refs])


def artifacts_wanted(spec: TaskSpec) -> list[ArtifactId]:
    """The artifacts that a task is given."""
    return artifacts_in([*spec.references(), *spec.context_refs])


def given(
    spec: TaskSpec,
    found: Mapping[TaskId, Returned],
    artifacts: Mapping[ArtifactId, Artifact] | None = None,
) -> Given:
    """What a task is given; raises InvalidTask with the reference that leads to nothing. Of an
    artifact an argument gets the facts, as JSON.
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
    return Given(payload, references)


def output(field: str, task: TaskId, found: Returned, trigger: Trigger) -> JsonValue:
    """What a task has returned. One that ended badly gave nothing, which is None to those that
    run however their parents end, and so is one that has not ended to those that a death frees.
    """
    state = found.state
    if state is State.COMPLETED:
        return decode(found.result, field=field) if found.result else None
    if state is None:
        raise InvalidTask(field, f"{task} is not here: never submitted, or ended and expired")
    if trigger == "one_failed" or (trigger == "all_done" and state in FINAL):
        return None
    if state in FINAL:
        raise InvalidTask(field, f"{task} is {state} and has no output")
    raise InvalidTask(field, f"{task} is {state} and has no output yet")
