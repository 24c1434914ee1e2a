"""Fills a task's references, and stores and loads results that are too large for the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.core.reader import outputs
from rqueue.errors import (
    ArtifactDamaged,
    ArtifactError,
    ArtifactNotFound,
    ArtifactsUnavailable,
    InvalidTask,
)
from rqueue.task.artifact import JSON, RESULT, Artifact, placeholder_in, placeholder_of
from rqueue.task.codec import decode
from rqueue.task.references import TaskOutput, artifacts_wanted, outputs_wanted, resolve_inputs

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.store.shard import Shard
    from rqueue.task.ids import TaskId
    from rqueue.task.task import Task


# Every definition that has references contains one of these.
MARKS = (b'"inputs":', b'"context_refs":')


class StoredResult(bytes):
    """The reference that is stored in place of a large result, with the result itself in
    `whole`.
    """

    whole: bytes


async def store_result(shelf: Shelf, task: TaskId, result: bytes) -> StoredResult:
    """Stores a large result as an artifact; raises ArtifactsUnavailable."""
    artifact = await shelf.put(result, name=RESULT, media_type=JSON, task=task)
    found = StoredResult(placeholder_of(artifact))
    found.whole = result
    return found


async def loaded(shelf: Shelf, result: bytes) -> bytes:
    """An encoded result, read from its artifact if it is stored as one."""
    artifact = placeholder_in(result)
    return result if artifact is None else await shelf.get(artifact)


async def completed(shelf: Shelf, task: Task) -> Task:
    """A task with its result; raises ArtifactError if the artifact cannot be read."""
    artifact: Artifact | None = task.result_artifact
    if artifact is None:
        return task
    value = decode(await shelf.get(artifact), field="result")
    return task.model_copy(update={"result": value})


async def shown(shelf: Shelf, task: Task) -> Task:
    """A task with its result, or marked as damaged if the artifact is gone. Raises
    ArtifactsUnavailable if the artifact store cannot answer.
    """
    try:
        return await completed(shelf, task)
    except (ArtifactNotFound, ArtifactDamaged):
        return task.model_copy(update={"damaged": (*task.damaged, "result")})


def refers(definition: bytes) -> bool:
    """Whether a definition may have references; only then is it decoded."""
    return any(mark in definition for mark in MARKS)


async def filled(shard: Shard, shelf: Shelf, task: Task) -> Task:
    """The task with its inputs in its payload and its `references` filled. Raises InvalidTask with
    the reference that cannot be resolved, StoreUnavailable if a store is unavailable.
    """
    spec = task.spec
    tasks, artifacts = outputs_wanted(spec), artifacts_wanted(spec)
    if not tasks and not artifacts and not spec.inputs:
        return task
    try:
        found = await returned(shard, shelf, tasks)
        facts = {id: await shelf.info(id) for id in artifacts}
    except ArtifactsUnavailable:
        raise
    except ArtifactError as error:
        raise InvalidTask("inputs", str(error)) from error
    payload, references = resolve_inputs(spec, found, facts)
    whole = spec.model_copy(update={"payload": payload})
    return task.model_copy(update={"spec": whole, "references": references})


async def returned(shard: Shard, shelf: Shelf, tasks: list[TaskId]) -> dict[TaskId, TaskOutput]:
    """The states and results of tasks, from Redis or the artifact store."""
    found = await outputs(shard, [id.ulid for id in tasks])
    whole = [one._replace(result=await loaded(shelf, one.result)) for one in found]
    return dict(zip(tasks, whole, strict=True))
