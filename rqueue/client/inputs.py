"""Fills in what a claimed task is given of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.policy.inputs import given, wanted
from rqueue.store.outputs import outputs

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.store.shard import Shard

# One of these stands in every definition that refers to something.
MARKS = (b'"inputs":', b'"context_refs":')


def refers(definition: bytes) -> bool:
    """Whether a definition may refer to other tasks; it is looked at closely only then."""
    return any(mark in definition for mark in MARKS)


async def filled(shard: Shard, task: Task) -> Task:
    """The task with its inputs in its payload, and what it may look at in `references`. Raises
    InvalidTask with the reference that leads to nothing.
    """
    spec = task.spec
    tasks = wanted(spec)
    if not tasks and not spec.inputs:
        return task
    found = dict(zip(tasks, await outputs(shard, [id.ulid for id in tasks]), strict=True))
    payload, references = given(spec, found)
    whole = spec.model_copy(update={"payload": payload})
    return task.model_copy(update={"spec": whole, "references": references})
