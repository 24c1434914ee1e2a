"""Operations on tasks: find, read, change, cancel and discard them, one by one or by a filter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from rqueue.clock import SYSTEM
from rqueue.core import index, tasks
from rqueue.core.index import Filter
from rqueue.core.tasks import Dependents
from rqueue.dags import store as dag_store
from rqueue.dead import store as dead_store
from rqueue.dead.decide import Decision
from rqueue.dead.store import Reviewed
from rqueue.errors import InvalidTask, TaskNotFound
from rqueue.producer import arguments
from rqueue.producer.drafts import to_ms
from rqueue.task.codec import encode
from rqueue.task.definition import compose, fields_of
from rqueue.task.fields import YEAR_SEC, task_reference
from rqueue.task.ids import TaskId, external_key
from rqueue.task.lane import micro
from rqueue.task.priority import to_native
from rqueue.task.state import LIVE, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.reader import ArchiveReader
    from rqueue.core.reader import Reader
    from rqueue.dead.reviews import Resolution
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.task import Task


# Called with the number done and the total.
Progress = Callable[[int, int], object]


@dataclass(slots=True)
class Swept:
    """The tasks that matched a filter, and how many of them were ended (0 for a dry run)."""

    found: int = 0
    done: int = 0
    tasks: list[TaskId] = field(default_factory=list)


@dataclass(slots=True)
class Chosen:
    """The tasks that matched a filter, for `end`: dead ones with their life, and live ones.

    Only ids and reviews are stored, because all payloads together may exceed the memory.
    """

    dead: list[Reviewed] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    swept: Swept = field(default_factory=Swept)


async def chosen_of(found: AsyncIterator[Task], decision: Decision) -> Chosen:
    """Collects the tasks of an iterator for `end`, with one decision for the dead ones."""
    chosen = Chosen()
    async for task in found:
        chosen.swept.tasks.append(task.id)
        if task.state is State.DEAD_LETTERED:
            chosen.dead.append(Reviewed(task.id.ulid, task.life, decision.review(task)))
        else:
            chosen.live.append(task.id.ulid)
    chosen.swept.found = len(chosen.swept.tasks)
    return chosen


async def end(
    shard: Shard, chosen: Chosen, *, reason: str, progress: Progress | None, dependents: Dependents
) -> Swept:
    """Cancels the live tasks and discards the dead ones. `progress` is called after each page with
    the number done and the total.
    """
    swept = chosen.swept
    words: list[str] = []
    for start in range(0, swept.found, index.PAGE):
        page = slice(start, start + index.PAGE)
        if chosen.live[page]:
            ids = chosen.live[page]
            words += await tasks.cancel(shard, ids, reason=reason, dependents=dependents)
        if chosen.dead[page]:
            words += await dead_store.discard(shard, chosen.dead[page], reason=reason)
        if progress is not None:
            progress(len(words), swept.found)
    swept.done = words.count("OK")
    return swept


DEPENDENTS: tuple[Dependents, ...] = get_args(Dependents)


class Operations:
    """Operations on the tasks of one shard.

    `reviewer` is the default author of decisions on dead tasks. Its role is not checked, unlike
    that of a principal that submits.
    """

    def __init__(
        self,
        shard: Shard,
        reader: Reader,
        settings: Settings,
        past: ArchiveReader | None = None,
    ) -> None:
        self.shard = shard
        self.reader = reader
        self.settings = settings
        self.past = past
        self.reviewer = settings.principal

    async def get(self, task: str) -> Task:
        """Returns a task, by its id in any form or its external id, from Redis or else the archive.
        Raises TaskNotFound if it is in neither, and StoreUnavailable if one of them cannot be read.
        """
        try:
            return await self.present(task)
        except TaskNotFound:
            if self.past is None:
                raise
            found = await self.past.get(task_reference(str(task)))
            if found is None:
                raise
            return found

    async def present(self, task: str) -> Task:
        """Returns a task from Redis; raises TaskNotFound."""
        known = await self.id_of(task)
        (found,) = await self.reader.read([known.ulid])
        if found is None:
            raise TaskNotFound(task)
        return found

    async def id_of(self, task: str) -> TaskId:
        """Returns the id of a task that may be named by its external id. Raises TaskNotFound for an
        unknown external id; an unknown task id is returned unchanged.
        """
        if isinstance(task, TaskId):
            return task
        named = task_reference(str(task))
        if isinstance(named, TaskId) and await index.exists(self.shard, named.ulid):
            return named
        ulid = await index.resolve(self.shard, external_key(named))
        if ulid is not None:
            return TaskId.from_ulid(ulid)
        if isinstance(named, TaskId):
            return named
        raise TaskNotFound(task)

    async def cancel(self, task: str, *, reason: str, dependents: Dependents) -> bool:
        """Cancels a task. Returns False if it has ended or does not exist."""
        why = arguments.reason_of(reason)
        how = arguments.word_of("dependents", dependents, DEPENDENTS)
        try:
            known = await self.id_of(task)
        except TaskNotFound:
            return False
        words = await tasks.cancel(self.shard, [known.ulid], reason=why, dependents=how)
        return words[0] == "OK"

    async def set_priority(self, task: str, priority: float, scale: str | None = None) -> None:
        """Sets the base priority of a task; its age boost is kept."""
        native = to_native(priority, scale or self.settings.scale)
        found = await self.present(task)
        was = micro(found.spec.priority)
        await tasks.set_priority(self.shard, found.id, base=micro(native), was=was)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | str | None = None
    ) -> None:
        """Delays a waiting task by `delay` seconds from now, or until `at`."""
        if (delay is None) == (at is None):
            raise InvalidTask("delay", "give either delay or at, not both or none")
        delay_ms = None if delay is None else ms(arguments.seconds_of("delay", delay))
        at_ms = None
        if at is not None:
            when = arguments.instant_of("at", at)
            if (when - SYSTEM.now()).total_seconds() > YEAR_SEC:
                raise InvalidTask("at", "is more than a year away")
            at_ms = to_ms(when)
        known = await self.id_of(task)
        await tasks.reschedule(self.shard, known, delay_ms=delay_ms, at_ms=at_ms)

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that is not claimed. Retries after a concurrent change."""
        while True:
            found = await self.present(task)
            was = await self.reader.definition(found.id.ulid)
            definition = self.changed(was, payload)
            if await tasks.edit(self.shard, found.id, was=was, definition=definition):
                return

    def changed(self, was: bytes, payload: object) -> bytes:
        """Returns a definition with another payload; raises InvalidTask."""
        options = fields_of(was)
        type, _ = str(options.pop("type")), options.pop("payload", None)
        body = encode(payload, max_bytes=self.settings.max_payload_bytes)
        return compose(type, body, options)

    def plain(self, resolution: Resolution, note: str = "") -> Decision:
        """Returns a decision that consists of a resolution and a note."""
        return Decision(resolution, note=note, by=self.reviewer or "")

    async def find(self, wanted: Filter) -> AsyncIterator[Task]:
        """Yields the tasks that match a filter, read in pages. Of ended tasks, only dead ones are
        found.
        """
        pages = index.ids(
            self.shard,
            wanted.states,
            members=dag_store.member_pages,
            type=wanted.type,
            tag=wanted.tag,
        )
        async for task in self.met(pages, wanted):
            yield task

    async def met(self, pages: AsyncIterator[list[str]], wanted: Filter) -> AsyncIterator[Task]:
        """Yields the tasks of these pages that match a filter, each once."""
        seen: set[str] = set()
        async for page in pages:
            fresh = [ulid for ulid in page if ulid not in seen]
            seen.update(fresh)
            for task in await self.reader.read(fresh):
                if task is not None and wanted.fits(task):
                    yield task

    async def chosen(self, wanted: Filter, *, reason: str) -> Chosen:
        """Returns the tasks that match a filter now, for `end`."""
        decision = self.plain("cancel", arguments.reason_of(reason))
        return await chosen_of(self.find(wanted), decision)

    async def end(
        self,
        chosen: Chosen,
        *,
        reason: str,
        progress: Progress | None = None,
        dependents: Dependents = "cascade",
    ) -> Swept:
        """Cancels the chosen live tasks and discards the chosen dead ones."""
        why = arguments.reason_of(reason)
        return await end(self.shard, chosen, reason=why, progress=progress, dependents=dependents)

    async def sweep(self, wanted: Filter, *, reason: str, dry_run: bool) -> Swept:
        """Ends all tasks that match a filter; a dry run only lists them."""
        chosen = await self.chosen(wanted, reason=reason)
        return chosen.swept if dry_run else await self.end(chosen, reason=reason)


def filter_of(
    states: Iterable[State | str] | None,
    type: str | None,
    tag: str | None,
    before: datetime | str | None,
) -> Filter:
    """Returns the filter of these options; `states` None means all live ones. Raises
    InvalidTask.
    """
    return Filter(
        states=LIVE if states is None else arguments.states_of(states),
        type=None if type is None else arguments.name_of("type", type),
        tag=None if tag is None else arguments.label_of("tag", tag),
        before=None if before is None else arguments.instant_of("before", before),
    )


def ms(seconds: float) -> int:
    """Converts seconds to milliseconds."""
    return round(seconds * 1000)
