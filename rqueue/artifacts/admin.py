"""`queue.artifacts`: put, list, delete and sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from rqueue.artifacts.shelf import FACTS
from rqueue.core.notes import mentioned
from rqueue.core.outbox import is_joined
from rqueue.errors import ArtifactDamaged, ArtifactNotFound, InvalidTask
from rqueue.producer import arguments
from rqueue.producer.earlier import archive_unknown
from rqueue.task.artifact import id_of
from rqueue.task.ids import ArtifactId, ulid_of
from rqueue.task.state import FINAL, State
from rqueue.worker.context.artifacts import ArtifactReader

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.clock import Clock
    from rqueue.operations import Operations
    from rqueue.task.artifact import Artifact, Data
    from rqueue.task.ids import TaskId


DAY_MS = 86_400_000
SWEEP_DAYS = 30
MAX_DAYS = 36_500
# Approximate number of artifacts that one sweep deletes; the next sweep continues.
MOST = 10_000
PAGE = 500


@dataclass(slots=True)
class SweptArtifacts:
    """The unused artifacts that a sweep found and how many it deleted, 0 in a dry run. `more` means
    that it stopped before it had checked all old artifacts.
    """

    found: list[ArtifactId] = field(default_factory=list)
    deleted: int = 0
    more: bool = False


class QueueArtifacts(ArtifactReader):
    """`queue.artifacts`. An artifact that is put here belongs to no task and stays until it is
    deleted.
    """

    def __init__(self, operations: Operations, shelf: Shelf, clock: Clock) -> None:
        super().__init__(shelf)
        self._operations = operations
        self._place = shelf
        self._clock = clock

    async def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Stores bytes, a text, a file (as a Path) or the output of an async iterator. Raises
        ArtifactRefused and ArtifactsUnavailable; no artifact is stored then.
        """
        return (await self._place.put(data, name=name, media_type=media_type)).at(self)

    async def list(self, task: str) -> Sequence[Artifact]:
        """Returns the artifacts that a task has put, and its result if that is an artifact."""
        found = await self._operations.get(task)
        result = () if found.result_artifact is None else (found.result_artifact,)
        return [artifact.at(self) for artifact in (*found.attached, *result)]

    async def delete(self, artifact: str | Artifact) -> None:
        """Deletes an artifact, even if tasks still refer to it."""
        await self._place.delete([id_of(artifact)])

    async def sweep(self, days: float = SWEEP_DAYS, *, dry_run: bool = False) -> SweptArtifacts:
        """Deletes artifacts that tasks have put at least `days` (1 or more) ago and that nothing in
        Redis or the archive refers to, such as those of lost attempts and expired tasks. `dry_run`
        only lists them.
        """
        if not 1 <= arguments.seconds_of("days", days) <= MAX_DAYS:
            raise InvalidTask("days", f"is a number from 1 to {MAX_DAYS}")
        before = first_of(self._clock.now_ms() - round(days * DAY_MS))
        return await Sweep(self._operations, self._place).run(before, dry_run=dry_run)


class Sweep:
    """Finds and deletes unused artifacts."""

    def __init__(self, operations: Operations, place: Shelf) -> None:
        self.operations = operations
        self.place = place

    async def run(self, before: ArtifactId, *, dry_run: bool) -> SweptArtifacts:
        """Sweeps the artifacts with ids below this one."""
        # Fails immediately, not after hours, if the archive cannot be read.
        await self.archived([])
        swept = SweptArtifacts()
        async for page in self.candidates(before, await self.referenced()):
            if len(swept.found) >= MOST:
                swept.more = True
                break
            swept.found += await self.orphans(page)
        if swept.found:
            # Checked again: a task that has ended since the first read may refer to an artifact.
            referenced = await self.referenced()
            swept.found = [id for id in swept.found if id not in referenced]
        for start in range(0, 0 if dry_run else len(swept.found), PAGE):
            gone = swept.found[start : start + PAGE]
            await self.place.delete(gone)
            swept.deleted += len(gone)
        return swept

    async def referenced(self) -> set[ArtifactId]:
        """Returns the artifacts that anything in Redis refers to."""
        return {id async for id in mentioned(self.operations.shard)}

    async def candidates(
        self, before: ArtifactId, referenced: Set[ArtifactId]
    ) -> AsyncIterator[dict[ArtifactId, TaskId | None]]:
        """Yields pages of the artifacts below an id that may be swept and are not referred to, each
        with the task that put it.
        """
        page: dict[ArtifactId, TaskId | None] = {}
        async for id, has_metadata in self.stored(before):
            if id in referenced:
                continue
            page |= await self.candidate(id) if has_metadata else {id: None}
            if len(page) >= PAGE:
                yield page
                page = {}
        if page:
            yield page

    async def candidate(self, id: ArtifactId) -> dict[ArtifactId, TaskId | None]:
        """Returns an artifact and the task that put it, None if the writer died before it wrote the
        metadata. Empty if the artifact may not be swept.
        """
        try:
            artifact = await self.place.info(id)
        except ArtifactNotFound:
            # The metadata is incomplete, or the artifact was swept in the meantime.
            return {id: None} if await self.place.has_bytes(id) else {}
        except ArtifactDamaged:
            # Its owner is unknown: it is left for an operator to inspect.
            return {}
        return {id: artifact.task} if is_swept(artifact, self.place.queue) else {}

    async def orphans(self, owners: dict[ArtifactId, TaskId | None]) -> list[ArtifactId]:
        """Returns the artifacts whose task has ended or expired and that the archive does not refer
        to.
        """
        states = await self.states([task for task in owners.values() if task is not None])
        ended = {
            id: task
            for id, task in owners.items()
            if is_orphan(None if task is None else states.get(task))
        }
        kept = await self.archived([task for task in ended.values() if task is not None])
        return [id for id in ended if id not in kept]

    async def stored(self, before: ArtifactId) -> AsyncIterator[tuple[ArtifactId, bool]]:
        """Yields the ids below one, oldest first, each with whether it has metadata, complete or
        not.
        """
        names = [name async for page in self.place.medium.pages(before) for name in page]
        for stem, group in groupby(sorted(names), key=lambda name: name.removesuffix(FACTS)):
            try:
                id = ArtifactId.parse(stem)
            except InvalidTask:
                # Not a file of rqueue.
                continue
            if id == stem:
                yield id, any(name.endswith(FACTS) for name in group)

    async def archived(self, tasks: Sequence[TaskId]) -> set[ArtifactId]:
        """Returns the artifacts and results of these tasks according to the archive. Raises
        StoreUnavailable if it cannot be read, and ConfigError if it is not configured here; nothing
        is deleted then.
        """
        found: set[ArtifactId] = set()
        past = self.operations.past
        if past is None:
            if self.operations.shard.terms.archive or await is_joined(self.operations.shard):
                raise archive_unknown("name what would be deleted")
            return found
        for task in dict.fromkeys(tasks):
            for life in await past.lives(task):
                result = () if life.result_artifact is None else (life.result_artifact,)
                found.update(artifact.id for artifact in (*life.attached, *result))
        return found

    async def states(self, tasks: Sequence[TaskId]) -> dict[TaskId, State]:
        """Returns the states of the tasks that exist in Redis."""
        ulids = list(dict.fromkeys(task.ulid for task in tasks))
        found = await self.operations.reader.read(ulids)
        return {task.id: task.state for task in found if task is not None}


def is_swept(artifact: Artifact, queue: str) -> bool:
    """Returns whether a queue's sweep may delete it: only if a task of this queue has put it.
    Artifacts of producers are deleted by them, those of another queue by its own sweep.
    """
    return artifact.task is not None and artifact.queue == queue


def is_orphan(state: State | None) -> bool:
    """Returns whether an unreferenced artifact is unused: its task has ended or no longer exists. A
    live task may still add a reference.
    """
    return state is None or state in FINAL


def first_of(ms: int) -> ArtifactId:
    """Returns the smallest id of a millisecond; ids of older artifacts are below it."""
    return ArtifactId.from_ulid(ulid_of(ms << 80))
