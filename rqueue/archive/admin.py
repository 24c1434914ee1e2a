"""`queue.archive`: searches and maintains the archive of a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from typing_extensions import TypedDict

from rqueue.archive.filters import BYS, WORDS, By, TaskFilter
from rqueue.archive.reports import AgentEvent, EventFilter, Spent, events, spend
from rqueue.core import outbox
from rqueue.errors import ConfigError, InvalidTask, TaskNotFound
from rqueue.producer import arguments
from rqueue.task.fields import dag_reference, task_reference
from rqueue.task.ids import DagId, TaskId

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rqueue.archive.connection import Archive
    from rqueue.archive.maintenance.embeddings import Embeddings
    from rqueue.archive.maintenance.metrics import Period, QueueMetrics
    from rqueue.archive.maintenance.restore import Restorer
    from rqueue.archive.maintenance.retention import Pruned, Retention
    from rqueue.archive.maintenance.verify import Verified
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.dead.rebuild import Restored
    from rqueue.operations import Operations
    from rqueue.task.state import State
    from rqueue.task.task import Task

# The default time range for each period.
SHOWN: dict[Period, timedelta] = {
    "minute": timedelta(hours=1),
    "hour": timedelta(days=2),
    "day": timedelta(days=31),
}
NO_ARCHIVE = "is not configured here: set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml"
MAX_TEXT = 1_000
MOST = 1_000_000_000


class SearchOptions(TypedDict, total=False):
    """Search options; all given conditions must match.

    `status` is one word or several, of any document form: COMPLETED, dead-letter, dead, cancelled.
    `since` and `until` bound the end of the task. `text` occurs in the error or the payload.
    `agent` is the task's agent or the worker that ran it. With `all_lives`, each life of a retried
    task is a result, not only the newest.
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


class QueueArchive:
    """`queue.archive`: reads and maintains the archived tasks.

    All methods but `leave` raise InvalidTask for invalid options, StoreUnavailable if PostgreSQL is
    unavailable, and ConfigError if no archive is configured or its tables are missing.
    """

    def __init__(
        self,
        operations: Operations,
        archive: Archive | None,
        clock: Clock,
        *,
        earlier: ArchiveReader | None,
    ) -> None:
        self._operations = operations
        self._settings = operations.settings
        self._known = archive
        self._clock = clock
        self._earlier = earlier

    @property
    def _reader(self) -> ArchiveReader:
        if self._operations.past is None:
            raise ConfigError("archive", NO_ARCHIVE)
        return self._operations.past

    @property
    def _archive(self) -> Archive:
        if self._known is None:
            raise ConfigError("archive", NO_ARCHIVE)
        return self._known

    def _restorer(self) -> Restorer:
        from rqueue.archive.maintenance.restore import Restorer  # noqa: PLC0415 - an extra

        if self._operations.past is None:
            raise ConfigError("archive", NO_ARCHIVE)
        return Restorer(self._archive, self._operations, self._clock, earlier=self._earlier)

    async def get(self, task: str, *, life: int | None = None) -> Task:
        """Returns a task by its id in any form or by its external id, in its last life or the given
        one. Raises TaskNotFound.
        """
        if life is not None:
            arguments.number_of("life", life, most=MOST)
        found = await self._reader.get(task_reference(str(task)), life)
        if found is None:
            raise TaskNotFound(task)
        return found

    async def lives(self, task: str) -> list[Task]:
        """Returns all archived lives of a task, newest first. Raises TaskNotFound."""
        found = await self._reader.lives(task_reference(str(task)))
        if not found:
            raise TaskNotFound(task)
        return found

    async def search(
        self, *, limit: int | None = None, **sought: Unpack[SearchOptions]
    ) -> AsyncIterator[Task]:
        """Yields the matching tasks, the latest end first, read in pages."""
        most = None if limit is None else arguments.number_of("limit", limit, most=MOST)
        async for task in self._reader.find(task_filter_of(sought), limit=most):
            yield task

    async def count(self, **sought: Unpack[SearchOptions]) -> int:
        """Returns the number of matching tasks."""
        return await self._reader.count(task_filter_of(sought))

    async def spend(
        self,
        by: Sequence[By] | By = ("type",),
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        type: str | None = None,
        limit: int | None = None,
    ) -> list[Spent]:
        """Returns the total cost of ended tasks, grouped by any of type, agent, worker, model and
        day (UTC).
        """
        wanted = (by,) if isinstance(by, str) else tuple(by)
        chosen = tuple(dict.fromkeys(arguments.word_of("by", one, BYS) for one in wanted))
        return await spend(
            self._reader,
            chosen,
            since=moment_of("since", since),
            until=moment_of("until", until),
            type=None if type is None else arguments.name_of("type", type),
            limit=None if limit is None else arguments.number_of("limit", limit, most=MOST),
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
        """Yields the events of agents, newest first, for memories, reports and audits. They are
        recorded only while the queue's setting `agent_events` is on.
        """
        wanted = EventFilter(
            agent=None if agent is None else arguments.label_of("agent", agent),
            task=None if task is None else TaskId.parse(task).uuid,
            since=moment_of("since", since),
            until=moment_of("until", until),
        )
        most = None if limit is None else arguments.number_of("limit", limit, most=MOST)
        async for event in events(self._reader, wanted, limit=most):
            yield event

    # Maintenance.

    async def metrics(
        self,
        period: Period = "day",
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> list[QueueMetrics]:
        """Returns the counts of each minute, hour or day, oldest first; by default of the last
        hour, two days or month. The last row is of the current, incomplete period.
        """
        # The archive's own package is an extra.
        from rqueue.archive.maintenance.metrics import read_metrics  # noqa: PLC0415

        known = arguments.word_of("period", period, SHOWN)
        now = self._clock.now()
        begin = now - SHOWN[known] if since is None else arguments.instant_of("since", since)
        end = now + timedelta(days=1) if until is None else arguments.instant_of("until", until)
        return await read_metrics(self._archive, self._settings.name, known, since=begin, until=end)

    @property
    def embeddings(self) -> Embeddings:
        """The completed tasks that are to be embedded, for an embedding worker."""
        from rqueue.archive.maintenance.embeddings import Embeddings  # noqa: PLC0415 - an extra

        return Embeddings(self._archive, self._settings.name)

    async def prune(self, retention: Retention | None = None, *, dry_run: bool = False) -> Pruned:
        """Deletes rows that are older than the given retention, by default the queue's; `dry_run`
        only counts them.
        """
        from rqueue.archive.maintenance.retention import pruning_of  # noqa: PLC0415 - an extra

        now = self._clock.now()
        pruning = pruning_of(self._archive, self._settings, retention, now=now)
        return await (pruning.count() if dry_run else pruning.prune())

    async def restore(self, task: str, *, dry_run: bool = False) -> Restored:
        """Submits a new task like an archived one. While its idempotency key is valid, a repeated
        call returns the same new task. `dry_run` only reports what would be done. Raises
        TaskNotFound, WrongState if the task has not ended, NotArchived if its end is still in the
        outbox, and the SubmitErrors.
        """
        return await self._restorer().task(task, dry_run=dry_run)

    async def restore_dag(
        self, dag: str, *, incomplete: bool = False, dry_run: bool = False
    ) -> Restored:
        """Submits a new DAG like an ended one. With `incomplete`, only with the tasks that did not
        complete; they receive the outputs of the others. Each call submits another DAG. Raises
        DagNotFound, InvalidTask if it has not ended, NotArchived if a part of it is still in the
        outbox, and the other SubmitErrors.
        """
        return await self._restorer().dag(dag, incomplete=incomplete, dry_run=dry_run)

    async def leave(self) -> None:
        """Records that the queue has no archive any more; raises OutboxNotEmpty if tasks wait for
        it. A running archiver, or a worker or scheduler that starts with the archive in its
        settings, reverts this.
        """
        await outbox.leave(self._operations.shard)

    async def verify(self, *, repair: bool = False) -> Verified:
        """Compares the ended tasks in Redis with the archive and counts the missing ones. `repair`
        adds tasks that are in neither the outbox nor the archive to the outbox again, and corrects
        the counter of the outbox.
        """
        from rqueue.archive.maintenance.verify import Verifier  # noqa: PLC0415 - an extra

        verifier = Verifier(self._archive, self._operations.shard, self._settings, self._clock)
        found = await verifier.verify()
        if repair and (found.lost or found.counter != found.counted):
            await verifier.repair(found)
        return found


def task_filter_of(sought: SearchOptions) -> TaskFilter:
    """Returns the filter of these options. Raises InvalidTask."""
    unknown = sorted(sought.keys() - SearchOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    type, tag, text = sought.get("type"), sought.get("tag"), sought.get("text")
    agent, worker = sought.get("agent"), sought.get("worker")
    return TaskFilter(
        states=states_of(sought.get("status")),
        type=None if type is None else arguments.name_of("type", type),
        tag=None if tag is None else arguments.label_of("tag", tag),
        since=moment_of("since", sought.get("since")),
        until=moment_of("until", sought.get("until")),
        text=None if text is None else text_of(text),
        agent=None if agent is None else arguments.label_of("agent", agent),
        worker=None if worker is None else arguments.label_of("worker", worker),
        dag=dag_of(sought.get("dag")),
        all_lives=bool(sought.get("all_lives", False)),
    )


def states_of(given: str | State | Iterable[str | State] | None) -> frozenset[State]:
    """Returns the final states with these names, of any document form; empty for all states."""
    if given is None:
        return frozenset()
    words = (given,) if isinstance(given, str) else tuple(given)
    found = [WORDS.get(str(word).lower()) for word in words]
    if None in found:
        wrong = words[found.index(None)]
        known = ", ".join(WORDS)
        raise InvalidTask("status", f"{wrong!r:.100} is not a final state; known are {known}")
    return frozenset(state for state in found if state is not None)


def text_of(given: object) -> str:
    """Returns a valid search text. Raises InvalidTask if it is too long or PostgreSQL cannot store
    it.
    """
    if not isinstance(given, str) or not 0 < len(given) <= MAX_TEXT:
        raise InvalidTask("text", f"is text of 1 to {MAX_TEXT} characters")
    if arguments.UNSTORABLE.search(given):
        raise InvalidTask("text", "contains a NUL character or a lone surrogate")
    return given


def moment_of(field: str, given: datetime | str | None) -> datetime | None:
    """Returns the time, or None."""
    return None if given is None else arguments.instant_of(field, given)


def dag_of(given: str | None) -> UUID | None:
    """Returns the UUID of a DAG, given by its id in any form or by the id of a single task."""
    if given is None:
        return None
    named = dag_reference(str(given))
    if not isinstance(named, DagId):
        named = TaskId.parse(named)
    return named.uuid
