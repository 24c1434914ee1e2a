"""Results that are too large for the queue: kept as artifacts, and brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import ArtifactDamaged, ArtifactNotFound
from rqueue.model.artifact import JSON, RESULT, Artifact, stowed, stowed_in
from rqueue.model.codec import decode

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task


class Stowed(bytes):
    """What is stored in place of a large result, with the result itself beside."""

    whole: bytes


async def stow(shelf: Shelf, task: TaskId, result: bytes) -> Stowed:
    """Keeps a large result; raises ArtifactsUnavailable."""
    artifact = await shelf.put(result, name=RESULT, media_type=JSON, task=task)
    found = Stowed(stowed(artifact))
    found.whole = result
    return found


async def brought(shelf: Shelf, result: bytes) -> bytes:
    """A result as its handler's, wherever it is kept."""
    artifact = stowed_in(result)
    return result if artifact is None else await shelf.get(artifact)


async def completed(shelf: Shelf, task: Task) -> Task:
    """A task with its result; raises ArtifactError where that cannot be had."""
    artifact: Artifact | None = task.result_artifact
    if artifact is None:
        return task
    value = decode(await shelf.get(artifact), field="result")
    return task.model_copy(update={"result": value})


async def shown(shelf: Shelf, task: Task) -> Task:
    """A task with its result, or marked as one whose result is gone. Raises ArtifactsUnavailable
    where nobody can say.
    """
    try:
        return await completed(shelf, task)
    except (ArtifactNotFound, ArtifactDamaged):
        return task.model_copy(update={"damaged": (*task.damaged, "result")})
