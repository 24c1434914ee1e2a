"""Which artifacts nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.ids import ArtifactId
from rqueue.model.state import FINAL, State
from rqueue.model.ulid import ulid_of

if TYPE_CHECKING:
    from rqueue.model.artifact import Artifact


def is_swept(artifact: Artifact, queue: str) -> bool:
    """Whether a queue's sweep may look at it: what a task of this queue has put. What producers
    put is theirs to delete, and what another queue's tasks put is for that queue to know of.
    """
    return artifact.task is not None and artifact.queue == queue


def is_orphan(state: State | None) -> bool:
    """Whether an old artifact that nothing names may go: the task that put it has ended, or is not
    there any more. A task that lives may be about to name what it has put.
    """
    return state is None or state in FINAL


def first_of(ms: int) -> ArtifactId:
    """The least id of a moment: those of artifacts that are older come before it."""
    return ArtifactId.from_ulid(ulid_of(ms << 80))
