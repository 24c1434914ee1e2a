"""The artifacts of a queue, for producers, readers and operators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from rqueue.artifacts.shelf import FACTS
from rqueue.client import door
from rqueue.client.whereabouts import unknown
from rqueue.context.artifacts import Reading
from rqueue.errors import ArtifactDamaged, ArtifactNotFound, InvalidTask
from rqueue.model.artifact import id_of
from rqueue.model.ids import ArtifactId
from rqueue.policy.orphans import first_of, is_orphan, is_swept
from rqueue.store.artifacts import mentioned
from rqueue.store.outbox import is_joined

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.client.desk import Desk
    from rqueue.clock import Clock
    from rqueue.model.artifact import Artifact, Data
    from rqueue.model.ids import TaskId
    from rqueue.model.state import State

DAY_MS = 86_400_000
SWEEP_DAYS = 30
MAX_DAYS = 36_500
# About as many as one sweep deletes: the next goes on.
MOST = 10_000
PAGE = 500


@dataclass(slots=True)
class SweptArtifacts:
    """What a sweep found that nobody needs, and, unless it was a dry run, deleted; `more` where it
    has not seen all that is old enough.
    """

    found: list[ArtifactId] = field(default_factory=list)
    deleted: int = 0
    more: bool = False


class ArtifactDesk(Reading):
    """Puts, reads and sweeps. What is put here belongs to no task: it stays until it is deleted."""

    def __init__(self, desk: Desk, shelf: Shelf, clock: Clock) -> None:
        super().__init__(shelf)
        self.desk = desk
        self.place = shelf
        self.clock = clock

    async def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Keeps bytes, a text, a file (as a Path) or what an async iterator gives. Raises
        ArtifactRefused and ArtifactsUnavailable, and then there is no artifact.
        """
        return (await self.place.put(data, name=name, media_type=media_type)).at(self)

    async def of(self, task: str) -> list[Artifact]:
        """What a task has put, and its result where that is kept as an artifact."""
        found = await self.desk.get(task)
        result = () if found.result_artifact is None else (found.result_artifact,)
        return [artifact.at(self) for artifact in (*found.attached, *result)]

    async def delete(self, artifact: str | Artifact) -> None:
        """Removes an artifact for good, whoever names it."""
        await self.place.delete([id_of(artifact)])

    async def sweep(self, days: float = SWEEP_DAYS, *, dry_run: bool = False) -> SweptArtifacts:
        """Deletes what tasks have put more than so many days ago, at least one, and nothing of the
        queue names now, in Redis or in its archive: what a lost attempt left behind, and what
        belonged to tasks that have expired. With `dry_run` only says which.
        """
        if not 1 <= door.seconds_of("days", days) <= MAX_DAYS:
            raise InvalidTask("days", f"is a number from 1 to {MAX_DAYS}")
        before = first_of(self.clock.now_ms() - round(days * DAY_MS))
        # Nobody waits for hours to hear that it cannot be.
        await self.archived([])
        swept = SweptArtifacts()
        async for page in self.candidates(before, await self.named()):
            if len(swept.found) >= MOST:
                swept.more = True
                break
            swept.found += await self.orphans(page)
        if swept.found:
            # Once more: a task may have ended since the first look, with a word of what it put.
            named = await self.named()
            swept.found = [id for id in swept.found if id not in named]
        for start in range(0, 0 if dry_run else len(swept.found), PAGE):
            gone = swept.found[start : start + PAGE]
            await self.place.delete(gone)
            swept.deleted += len(gone)
        return swept

    async def named(self) -> set[ArtifactId]:
        """The artifacts that something of the queue names in Redis."""
        return {id async for id in mentioned(self.desk.shard)}

    async def candidates(
        self, before: ArtifactId, named: Set[ArtifactId]
    ) -> AsyncIterator[dict[ArtifactId, TaskId | None]]:
        """The artifacts below an id that may be swept and are not named, and who put them, some at
        a time.
        """
        page: dict[ArtifactId, TaskId | None] = {}
        async for id, is_told in self.kept(before):
            if id in named:
                continue
            page |= await self.candidate(id) if is_told else {id: None}
            if len(page) >= PAGE:
                yield page
                page = {}
        if page:
            yield page

    async def candidate(self, id: ArtifactId) -> dict[ArtifactId, TaskId | None]:
        """An artifact and who put it; nobody where there are but bytes, whose writer died before it
        had said what they are. Nothing where it may not be swept.
        """
        try:
            artifact = await self.place.info(id)
        except ArtifactNotFound:
            # Half of what was to be said of it, or swept meanwhile.
            return {id: None} if await self.place.has_bytes(id) else {}
        except ArtifactDamaged:
            # Nothing that can be judged: a person may look at it.
            return {}
        return {id: artifact.task} if is_swept(artifact, self.place.queue) else {}

    async def orphans(self, owners: dict[ArtifactId, TaskId | None]) -> list[ArtifactId]:
        """Those that nobody can name any more, and that the archive does not name."""
        states = await self.states([task for task in owners.values() if task is not None])
        ended = {
            id: task
            for id, task in owners.items()
            if is_orphan(None if task is None else states.get(task))
        }
        kept = await self.archived([task for task in ended.values() if task is not None])
        return [id for id in ended if id not in kept]

    async def kept(self, before: ArtifactId) -> AsyncIterator[tuple[ArtifactId, bool]]:
        """The ids below one, oldest first, and whether there is more than bytes of each: what is
        said of them, or a half of it.
        """
        names = [name async for page in self.place.medium.pages(before) for name in page]
        for stem, group in groupby(sorted(names), key=lambda name: name.removesuffix(FACTS)):
            try:
                id = ArtifactId.parse(stem)
            except InvalidTask:
                # Somebody else's.
                continue
            if id == stem:
                yield id, any(name.endswith(FACTS) for name in group)

    async def archived(self, tasks: Sequence[TaskId]) -> set[ArtifactId]:
        """The artifacts that the archive names as what these tasks have put or given. Raises
        StoreUnavailable where it cannot say, and ConfigError where nobody here knows where it is:
        then nothing is deleted.
        """
        found: set[ArtifactId] = set()
        past = self.desk.past
        if past is None:
            if self.desk.shard.terms.archive or await is_joined(self.desk.shard):
                raise unknown("name what would be deleted")
            return found
        for task in dict.fromkeys(tasks):
            for life in await past.lives(task):
                result = () if life.result_artifact is None else (life.result_artifact,)
                found.update(artifact.id for artifact in (*life.attached, *result))
        return found

    async def states(self, tasks: Sequence[TaskId]) -> dict[TaskId, State]:
        """How far these tasks are; those that are not there are left out."""
        ulids = list(dict.fromkeys(task.ulid for task in tasks))
        found = await self.desk.reader.read(ulids)
        return {task.id: task.state for task in found if task is not None}
