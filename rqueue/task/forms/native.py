"""The native form: flat, the names of TaskSpec and Task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.spec import TaskSpec

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.forms.document import Document
    from rqueue.task.task import Task


def read(document: Document) -> TaskSpec:
    """The spec of a native document."""
    return TaskSpec.parse(document)


def view(task: Task) -> dict[str, JsonValue]:
    """The fields of the spec and of the state together; no name is in both."""
    state: dict[str, JsonValue] = task.model_dump(mode="json", exclude={"spec"})
    spec: dict[str, JsonValue] = task.spec.model_dump(mode="json")
    return {**state, **spec, "tier": task.tier.value}
