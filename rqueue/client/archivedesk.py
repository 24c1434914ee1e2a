"""The archive of a queue, for readers and operators: what has ended, found again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Unpack

from typing_extensions import TypedDict

from rqueue.archive.events import AgentEvent, WantedEvents, events
from rqueue.archive.spending import BYS, By, Spent, spend
from rqueue.archive.wanted import WORDS, Wanted
from rqueue.client import door
from rqueue.errors import InvalidTask, TaskNotFound
from rqueue.model.field import dag_reference, task_reference
from rqueue.model.ids import DagId, TaskId

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rqueue.archive.reader import ArchiveReader
    from rqueue.model.state import State
    from rqueue.model.task import Task

MAX_TEXT = 1_000
MOST = 1_000_000_000


class Sought(TypedDict, total=False):
    """What may be asked for; all that is given must fit.

    `status` is one word or several, of any document: COMPLETED, dead-letter, dead, cancelled ...
    `since` and `until` bound the end of the task. `text` stands in the error or the payload.
    `agent` is who the task was for, or the worker that did it. With `all_lives`, each life of a
    task that was revived is one, not only the newest.
    """

    status: str | State | Iterable[str | State] | None
    type: str | None
    tag: str | None
    since: datetime | str | None
    until: datetime | str | None
    text: str | None
    agent: str | None
    worker: str | None
    dag: str | None
    all_lives: bool


class ArchiveDesk:
    """Reads what has ended. Each call raises InvalidTask where it asks for nothing that can be,
    StoreUnavailable where PostgreSQL is away, and ConfigError where the archive is not set up.
    """

    def __init__(self, reader: ArchiveReader) -> None:
        self.reader = reader

    async def get(self, task: str, *, life: int | None = None) -> Task:
        """A task by our id in any form or by the caller's own, as it ended last or in the life that
        is named; raises TaskNotFound.
        """
        if life is not None:
            door.number_of("life", life, most=MOST)
        found = await self.reader.get(task_reference(str(task)), life)
        if found is None:
            raise TaskNotFound(task)
        return found

    async def lives(self, task: str) -> list[Task]:
        """A task as it ended each time, the newest first; raises TaskNotFound."""
        found = await self.reader.lives(task_reference(str(task)))
        if not found:
            raise TaskNotFound(task)
        return found

    async def find(
        self, *, limit: int | None = None, **sought: Unpack[Sought]
    ) -> AsyncIterator[Task]:
        """The tasks that fit, the last that ended first, read as they are walked."""
        most = None if limit is None else door.number_of("limit", limit, most=MOST)
        async for task in self.reader.find(wanted_of(sought), limit=most):
            yield task

    async def count(self, **sought: Unpack[Sought]) -> int:
        """How many tasks fit."""
        return await self.reader.count(wanted_of(sought))

    async def spend(
        self,
        by: Sequence[By] | By = ("type",),
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        type: str | None = None,
        limit: int | None = None,
    ) -> list[Spent]:
        """What ended tasks have cost, in sums by type, agent, worker, model and day (of UTC), by as
        many of them as are named.
        """
        wanted = (by,) if isinstance(by, str) else tuple(by)
        chosen = tuple(dict.fromkeys(door.word_of("by", one, BYS) for one in wanted))
        return await spend(
            self.reader,
            chosen,
            since=moment_of("since", since),
            until=moment_of("until", until),
            type=None if type is None else door.name_of("type", type),
            limit=None if limit is None else door.number_of("limit", limit, most=MOST),
        )

    async def events(
        self,
        *,
        agent: str | None = None,
        task: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """What agents did, the last first: for memories, reports and audits. Empty where the
        queue's setting `agent_events` was off.
        """
        wanted = WantedEvents(
            agent=None if agent is None else door.label_of("agent", agent),
            task=None if task is None else TaskId.parse(task).uuid,
            since=moment_of("since", since),
            until=moment_of("until", until),
        )
        most = None if limit is None else door.number_of("limit", limit, most=MOST)
        async for event in events(self.reader, wanted, limit=most):
            yield event


def wanted_of(sought: Sought) -> Wanted:
    """What is asked for, if all of it can be; raises InvalidTask."""
    unknown = sorted(sought.keys() - Sought.__annotations__.keys())
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    type, tag, text = sought.get("type"), sought.get("tag"), sought.get("text")
    agent, worker = sought.get("agent"), sought.get("worker")
    return Wanted(
        states=states_of(sought.get("status")),
        type=None if type is None else door.name_of("type", type),
        tag=None if tag is None else door.label_of("tag", tag),
        since=moment_of("since", sought.get("since")),
        until=moment_of("until", sought.get("until")),
        text=None if text is None else text_of(text),
        agent=None if agent is None else door.label_of("agent", agent),
        worker=None if worker is None else door.label_of("worker", worker),
        dag=dag_of(sought.get("dag")),
        all_lives=bool(sought.get("all_lives", False)),
    )


def states_of(given: str | State | Iterable[str | State] | None) -> frozenset[State]:
    """The final states of these words, of whichever document; none for any."""
    if given is None:
        return frozenset()
    words = (given,) if isinstance(given, str) else tuple(given)
    found = [WORDS.get(str(word).lower()) for word in words]
    if None in found:
        wrong = words[found.index(None)]
        known = ", ".join(WORDS)
        raise InvalidTask("status", f"{wrong!r:.100} is no end of a task; one of {known} is")
    return frozenset(state for state in found if state is not None)


def text_of(given: object) -> str:
    """What is to be looked for, if it is short and PostgreSQL could hold it."""
    if not isinstance(given, str) or not 0 < len(given) <= MAX_TEXT:
        raise InvalidTask("text", f"is text of 1 to {MAX_TEXT} characters")
    if door.UNSTORABLE.search(given):
        raise InvalidTask("text", "contains a NUL character or a lone surrogate")
    return given


def moment_of(field: str, given: datetime | str | None) -> datetime | None:
    """An instant, if one is given."""
    return None if given is None else door.instant_of(field, given)


def dag_of(given: str | None) -> UUID | None:
    """A DAG by its id in any form, or by the id of a task that is alone."""
    if given is None:
        return None
    named = dag_reference(str(given))
    if not isinstance(named, DagId):
        named = TaskId.parse(named)
    return named.uuid
