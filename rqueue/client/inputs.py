"""Fills in what a claimed task is given of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.artifacts.results import brought
from rqueue.errors import ArtifactError, ArtifactsUnavailable, InvalidTask
from rqueue.policy.inputs import Returned, artifacts_wanted, given, wanted
from rqueue.store.outputs import outputs

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task
    from rqueue.store.shard import Shard

# One of these stands in every definition that refers to something.
MARKS = (b'"inputs":', b'"context_refs":')


def refers(definition: bytes) -> bool:
    """Whether a definition may refer to other tasks; it is looked at closely only then."""
    return any(mark in definition for mark in MARKS)


async def filled(shard: Shard, shelf: Shelf, task: Task) -> Task:
    """The task with its inputs in its payload, and what it may look at in `references`. Raises
    InvalidTask with the reference that leads to nothing, StoreUnavailable where a store is away.
    """
    spec = task.spec
    tasks, artifacts = wanted(spec), artifacts_wanted(spec)
    if not tasks and not artifacts and not spec.inputs:
        return task
    try:
        found = await returned(shard, shelf, tasks)
        facts = {id: await shelf.info(id) for id in artifacts}
    except ArtifactsUnavailable:
        raise
    except ArtifactError as error:
        raise InvalidTask("inputs", str(error)) from error
    payload, references = given(spec, found, facts)
    whole = spec.model_copy(update={"payload": payload})
    return task.model_copy(update={"spec": whole, "references": references})


async def returned(shard: Shard, shelf: Shelf, tasks: list[TaskId]) -> dict[TaskId, Returned]:
    """How far tasks are and what they have returned, wherever that is kept."""
    found = await outputs(shard, [id.ulid for id in tasks])
    whole = [one._replace(result=await brought(shelf, one.result)) for one in found]
    return dict(zip(tasks, whole, strict=True))
