"""Operating a queue while it runs: changes to one task, and to many by a filter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from rqueue.client import door
from rqueue.client.deciding import Decision, changes
from rqueue.client.drafts import to_ms
from rqueue.client.ending import Chosen, Swept, Told, chosen_of, end
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask, TaskNotFound
from rqueue.model.checked import YEAR_SEC
from rqueue.model.codec import encode
from rqueue.model.definition import compose, fields_of
from rqueue.model.field import task_reference
from rqueue.model.ids import TaskId, external_key
from rqueue.model.lane import micro
from rqueue.model.scale import to_native
from rqueue.model.state import LIVE, State
from rqueue.store import index, resolving, tasks
from rqueue.store.resolving import Reviewed, Revival
from rqueue.store.tasks import Dependents

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.reader import ArchiveReader
    from rqueue.model.review import Resolution
    from rqueue.model.task import Task
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

DEPENDENTS: tuple[Dependents, ...] = get_args(Dependents)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are meant: all that fit everything given."""

    states: frozenset[State] = LIVE
    type: str | None = None
    tag: str | None = None
    before: datetime | None = None

    def fits(self, task: Task) -> bool:
        """Whether a task is meant."""
        return (
            task.state in self.states
            and (self.type is None or task.spec.type == self.type)
            and (self.tag is None or self.tag in task.spec.tags)
            and (self.before is None or task.created_at < self.before)
        )


class Desk:
    """The operator's moves on one shard. `reviewer` is who decides about the dead where nobody says
    who; unlike the principal it is never asked for its role.
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
        """A task by our id in any form, or by the caller's own, from Redis or, where it has left
        that, from the archive. Raises TaskNotFound where it is in neither, and StoreUnavailable
        where one of them cannot say.
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
        """A task that Redis still has; raises TaskNotFound."""
        known = await self.id_of(task)
        (found,) = await self.reader.read([known.ulid])
        if found is None:
            raise TaskNotFound(task)
        return found

    async def id_of(self, task: str) -> TaskId:
        """Our id of a task that may be named by the caller's own."""
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
        """Ends a task that has not ended; False where there is none, by whatever id."""
        why = door.reason_of(reason)
        how = door.word_of("dependents", dependents, DEPENDENTS)
        try:
            known = await self.id_of(task)
        except TaskNotFound:
            return False
        words = await tasks.cancel(self.shard, [known.ulid], reason=why, dependents=how)
        return words[0] == "OK"

    async def set_priority(self, task: str, priority: float, scale: str | None = None) -> None:
        """Gives a live task another base priority; its age still counts."""
        native = to_native(priority, scale or self.settings.scale)
        found = await self.present(task)
        was = micro(found.spec.priority)
        await tasks.set_priority(self.shard, found.id, base=micro(native), was=was)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | str | None = None
    ) -> None:
        """Lets a waiting task wait for `delay` seconds from now, or until `at`."""
        if (delay is None) == (at is None):
            raise InvalidTask("delay", "give delay or at, one of them")
        delay_ms = None if delay is None else ms(door.seconds_of("delay", delay))
        at_ms = None
        if at is not None:
            when = door.instant_of("at", at)
            if (when - SYSTEM.now()).total_seconds() > YEAR_SEC:
                raise InvalidTask("at", "is more than a year away")
            at_ms = to_ms(when)
        known = await self.id_of(task)
        await tasks.reschedule(self.shard, known, delay_ms=delay_ms, at_ms=at_ms)

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that nobody has claimed yet."""
        while True:
            found = await self.present(task)
            was = await self.reader.definition(found.id.ulid)
            definition = self.changed(was, payload)
            if await tasks.edit(self.shard, found.id, was=was, definition=definition):
                return

    def changed(self, was: bytes, payload: object) -> bytes:
        """A definition with another payload."""
        options = fields_of(was)
        type, _ = str(options.pop("type")), options.pop("payload", None)
        body = encode(payload, max_bytes=self.settings.max_payload_bytes)
        return compose(type, body, options)

    async def revive(self, task: str, *, payload: object = None, delay: float = 0) -> State:
        """Gives a dead task a new life; with a payload it comes back changed."""
        delay_ms = ms(door.seconds_of("delay", delay))
        found = await self.present(task)
        word: Resolution = "retry" if payload is None else "modify_and_retry"
        decision = self.plain("wait" if word == "retry" and delay_ms else word)
        return await self.live_again(found, decision, payload, delay_ms=delay_ms)

    async def live_again(
        self, found: Task, decision: Decision, payload: object = None, *, delay_ms: int = 0
    ) -> State:
        """Gives a dead task a new life by this decision; with a payload it comes back changed."""
        revival = await self.revival(found, decision, payload, delay_ms=delay_ms)
        return await resolving.revive(self.shard, revival)

    async def revival(
        self, found: Task, decision: Decision, payload: object = None, *, delay_ms: int = 0
    ) -> Revival:
        """That new life as it is asked for; raises InvalidTask where there can be none such."""
        definition, diff = b"", ""
        if payload is not None:
            definition = self.changed(await self.reader.definition(found.id.ulid), payload)
            diff = changes(found.payload, payload)
        review = decision.review(found, diff)
        return Revival(found.id.ulid, found.life, review, definition, delay_ms)

    def plain(self, resolution: Resolution, note: str = "") -> Decision:
        """A decision of which nobody says more than what shall become of the task."""
        return Decision(resolution, note=note, by=self.reviewer or "")

    async def discard(self, task: str, reason: str = "") -> None:
        """Gives a dead task up; raises WrongState where it is not dead, AlreadyDecided where it is
        not any more.
        """
        why = door.reason_of(reason)
        known = await self.id_of(task)
        # Nobody can read it, perhaps: it may be given up all the same.
        (found,) = await self.reader.read([known.ulid])
        review = self.plain("cancel", why).review(found)
        rows = [Reviewed(known.ulid, None if found is None else found.life, review)]
        words = await resolving.discard(self.shard, rows, reason=why)
        (fault,) = await resolving.faults(self.shard, "task/discard", rows, words)
        if fault is not None:
            raise fault

    async def find(self, wanted: Filter) -> AsyncIterator[Task]:
        """The tasks a filter means, read as it walks; ended ones are found only while dead."""
        pages = index.ids(self.shard, wanted.states, type=wanted.type, tag=wanted.tag)
        async for task in self.met(pages, wanted):
            yield task

    async def met(self, pages: AsyncIterator[list[str]], wanted: Filter) -> AsyncIterator[Task]:
        """The tasks of some pages that a filter means, each once."""
        seen: set[str] = set()
        async for page in pages:
            fresh = [ulid for ulid in page if ulid not in seen]
            seen.update(fresh)
            for task in await self.reader.read(fresh):
                if task is not None and wanted.fits(task):
                    yield task

    async def chosen(self, wanted: Filter, *, reason: str) -> Chosen:
        """What a filter means now, to be ended by `end`."""
        decision = self.plain("cancel", door.reason_of(reason))
        return await chosen_of(self.find(wanted), decision)

    async def end(
        self,
        chosen: Chosen,
        *,
        reason: str,
        told: Told | None = None,
        dependents: Dependents = "cascade",
    ) -> Swept:
        """Cancels what lives and discards what is dead, of all that was chosen."""
        why = door.reason_of(reason)
        return await end(self.shard, chosen, reason=why, told=told, dependents=dependents)

    async def sweep(self, wanted: Filter, *, reason: str, dry_run: bool) -> Swept:
        """Ends all that a filter means; in a dry run it only says what that is."""
        chosen = await self.chosen(wanted, reason=reason)
        return chosen.swept if dry_run else await self.end(chosen, reason=reason)


def filter_of(
    states: Iterable[State | str] | None,
    type: str | None,
    tag: str | None,
    before: datetime | str | None,
) -> Filter:
    """The filter of these words; every live state where none is named. Raises InvalidTask."""
    return Filter(
        states=LIVE if states is None else door.states_of(states),
        type=None if type is None else door.name_of("type", type),
        tag=None if tag is None else door.label_of("tag", tag),
        before=None if before is None else door.instant_of("before", before),
    )


def ms(seconds: float) -> int:
    """Seconds as the server counts."""
    return round(seconds * 1000)
