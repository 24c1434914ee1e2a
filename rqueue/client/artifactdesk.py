"""The artifacts of a queue, for producers, readers and operators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from rqueue.artifacts.shelf import FACTS
from rqueue.client import door
from rqueue.context.artifacts import Reading
from rqueue.errors import ArtifactDamaged, ArtifactNotFound, ConfigError, InvalidTask
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
# Artifacts that one sweep looks at: the next goes on.
MOST = 10_000
PAGE = 500
NO_SERVER = (
    "is not set, and the archive of this queue may name what would be deleted: set"
    " RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml; a queue that has no archive any more is"
    " told so by `rqueue archive leave`, with `archive: none`"
)


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
        swept = SweptArtifacts()
        owners = await self.candidates(before, swept)
        states = await self.states([task for task in owners.values() if task is not None])
        named = {id async for id in mentioned(self.desk.shard)}
        orphans = [
            id
            for id, task in owners.items()
            if is_orphan(states.get(task) if task else None, named=id in named)
        ]
        kept = await self.archived([task for id in orphans if (task := owners[id]) is not None])
        swept.found = [id for id in orphans if id not in kept]
        for start in range(0, 0 if dry_run else len(swept.found), PAGE):
            page = swept.found[start : start + PAGE]
            await self.place.delete(page)
            swept.deleted += len(page)
        return swept

    async def candidates(
        self, before: ArtifactId, swept: SweptArtifacts
    ) -> dict[ArtifactId, TaskId | None]:
        """The artifacts below an id that may be swept, and who put them; nobody where there are
        but bytes, whose writer died before it said what they are.
        """
        found: dict[ArtifactId, TaskId | None] = {}
        async for id, whole in self.kept(before):
            if len(found) >= MOST:
                swept.more = True
                break
            if not whole:
                found[id] = None
                continue
            try:
                artifact = await self.place.info(id)
            except (ArtifactNotFound, ArtifactDamaged):
                # Swept meanwhile, or nothing that can be judged: a person may look at it.
                continue
            if is_swept(artifact, self.place.queue):
                found[id] = artifact.task
        return found

    async def kept(self, before: ArtifactId) -> AsyncIterator[tuple[ArtifactId, bool]]:
        """The ids below one, oldest first, and whether there is more than bytes of each."""
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
                raise ConfigError("postgres_url", NO_SERVER)
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
