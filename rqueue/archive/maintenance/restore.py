"""Submits archived tasks and DAGs again, as new ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.dag_rows import dag_past
from rqueue.archive.maintenance.verify import in_outbox
from rqueue.core.reader import Stored, outputs
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import dag_draft_of
from rqueue.dead.rebuild import Rebuilding, Restored, referred
from rqueue.dead.rebuild import incomplete as incomplete_of
from rqueue.errors import DagNotFound, InvalidTask, NotArchived, RQueueError, WrongState
from rqueue.producer.drafts import Drafter
from rqueue.producer.earlier import submit_new
from rqueue.task.artifact import placeholder_in
from rqueue.task.codec import decode
from rqueue.task.fields import dag_reference
from rqueue.task.ids import DagId, TaskId
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.operations import Operations

NO_LIFE = "life {} is not in the archive; `rqueue archive verify` reports whether it is lost"
MISSING = "{} is restored without {} of its {} tasks, which are not in the archive"

# The last life of each task.
LAST = """
SELECT DISTINCT ON (id) id, life, state, definition, result, record, dag_id
FROM rqueue.task_lives WHERE queue = %(queue)s AND {}
ORDER BY id, life DESC
"""
BY_ID, BY_DAG = LAST.format("id = ANY(%(ids)s)"), LAST.format("dag_id = %(dag)s")


@dataclass(frozen=True, slots=True)
class Past:
    """The last life of a task: its final state, definition, result and record."""

    id: TaskId
    life: int
    state: str
    definition: bytes
    result: bytes
    record: bytes
    dag: DagId | None = None

    def spec(self) -> tuple[TaskSpec, str | None]:
        """Returns the spec with all dependencies, and why it is unreadable, or None."""
        found: dict[str, Any] = json.loads(self.record)
        parents = [str(one).encode(errors="replace") for one in found.get("parents", ())]
        stored = Stored(
            dict(found.get("task", {})), self.definition, dependency_list=parents
        ).requested()
        return stored["spec"], stored["unreadable"]

    @property
    def is_stowed(self) -> bool:
        """Whether the result is an artifact, which is too large to be embedded in a new task."""
        try:
            return placeholder_in(self.result) is not None
        except InvalidTask:
            return True

    def output(self) -> Any:
        """Returns the decoded result; None without a result."""
        return decode(self.result, field="result") if self.result else None


class Restorer:
    """Submits archived tasks of one queue again, with their own options: the options of handlers
    and the middleware of this process are not applied. `earlier` finds restored tasks that have
    completed and whose idempotency keys have expired in Redis.
    """

    def __init__(
        self,
        archive: Archive,
        operations: Operations,
        clock: Clock,
        *,
        earlier: ArchiveReader | None,
    ) -> None:
        self.archive = archive
        self.earlier = earlier
        self.operations = operations
        self.shard = operations.shard
        self.queue = operations.settings.name
        self.clock = clock
        self.drafter = Drafter(operations.settings, clock, by=operations.settings.principal)

    async def task(self, task: str, *, dry_run: bool) -> Restored:
        """Submits one task again. Raises TaskNotFound, WrongState and NotArchived."""
        now = await self.operations.get(task)
        old = now.id
        if now.state not in FINAL:
            raise WrongState(old, found=now.state, wanted=FINAL)
        read = partial(by_id, self.archive, self.queue, [old])
        lives = await self.archived(old, {old: now.life}, read)
        if not lives:
            raise InvalidTask("task", f"cannot be restored: {NO_LIFE.format(now.life)}")
        rebuilding = await self.rebuilding(lives)
        if old not in rebuilding.ids:
            raise InvalidTask("task", f"cannot be restored: {'; '.join(rebuilding.notes)}")
        fields = rebuilding.fields(old)
        # A key of its own: with that of the old task, the submission would return the old task.
        fields["idempotency_key"] = f"restored:{old}:{lives[old].life}"
        draft = self.drafter.of_spec(TaskSpec.parse(fields))
        new, created = rebuilding.ids[old], True
        if not dry_run:
            (taken,) = await submit_new(self.shard, self.earlier, [draft], ids=[new])
            if isinstance(taken, RQueueError):
                raise taken
            new, created = taken.id, taken.created
        return Restored({old: new}, notes=tuple(rebuilding.notes), created=created)

    async def dag(self, dag: str, *, incomplete: bool, dry_run: bool) -> Restored:
        """Submits a whole DAG again, or only the tasks that did not complete. Raises DagNotFound,
        InvalidTask and NotArchived.
        """
        id = dag_reference(dag)
        if not isinstance(id, DagId):
            raise DagNotFound(dag)
        read = partial(by_dag, self.archive, self.queue, id)
        whole = await self.archived(id, await self.ended(id), read)
        if not whole:
            raise DagNotFound(dag)
        spec, following, total = await dag_past(self.archive, self.queue, id)
        rebuilding = await self.rebuilding(incomplete_of(whole) if incomplete else whole, whole)
        rebuilding.drop_idle()
        if len(whole) < total:
            rebuilding.notes.append(MISSING.format(id, total - len(whole), total))
        if following is not None:
            rebuilding.notes.append(f"{id} was followed by another DAG, which is not restored")
        if not rebuilding.ids:
            raise InvalidTask("dag", f"{id} has nothing to restore")
        plan = rebuilding.plan(spec)
        found = dag_draft_of(plan, self.drafter)
        if not dry_run:
            await dag_submit.submit(self.shard, found)
        return Restored(dict(rebuilding.ids), plan.id, tuple(rebuilding.notes))

    async def ended(self, dag: DagId) -> dict[TaskId, int]:
        """Returns the last lives of the DAG's tasks that are still in Redis. Raises InvalidTask if
        a task may still run.
        """
        try:
            found = await dag_store.read(self.shard, dag)
            members = await dag_store.members(self.shard, dag)
        except DagNotFound:
            return {}
        tasks = [task for task in await self.operations.reader.read(members) if task is not None]
        if not found.ended or any(task.state not in FINAL for task in tasks):
            raise InvalidTask("dag", f"{dag} has not ended: wait for it, or cancel it first")
        return {task.id: task.life for task in tasks}

    async def archived(
        self,
        what: str,
        ended: Mapping[TaskId, int],
        read: Callable[[], Awaitable[dict[TaskId, Past]]],
    ) -> dict[TaskId, Past]:
        """Returns the archived tasks, without those that have `ended` in a later life than the
        archived one. Raises NotArchived if such a life is still in the outbox.
        """
        found = await read()
        late = {(task, life) for task, life in ended.items() if not has_life(found, task, life)}
        if late:
            waiting = await in_outbox(self.shard, late)
            if waiting:
                raise NotArchived(what, len(waiting))
            # A life that has left the outbox meanwhile has a row now.
            found = await read()
        return {task: one for task, one in found.items() if one.life >= ended.get(task, 0)}

    async def rebuilding(
        self, lives: Mapping[TaskId, Past], others: Mapping[TaskId, Past] | None = None
    ) -> Rebuilding:
        """Returns the rebuilding of these tasks, with what is known of the tasks they depend on and
        refer to.
        """
        outside = referred(lives)
        known = await by_id(self.archive, self.queue, outside) if outside else {}
        states = await outputs(self.shard, [task.ulid for task in outside])
        present = {
            task: found.state
            for task, found in zip(outside, states, strict=True)
            if found.state is not None
        }
        found = Rebuilding(lives, {**known, **(others or {})}, present, self.clock.now())
        found.prepare()
        return found


def has_life(lives: Mapping[TaskId, Past], task: TaskId, life: int) -> bool:
    """Returns whether this life of a task, or a later one, is among these."""
    return task in lives and lives[task].life >= life


async def by_id(archive: Archive, queue: str, tasks: Sequence[TaskId]) -> dict[TaskId, Past]:
    """Returns the archived tasks of these ids."""
    return await read(archive, BY_ID, {"queue": queue, "ids": [task.uuid for task in tasks]})


async def by_dag(archive: Archive, queue: str, dag: DagId) -> dict[TaskId, Past]:
    """Returns the archived tasks of a DAG, ordered by id."""
    return await read(archive, BY_DAG, {"queue": queue, "dag": dag.uuid})


async def read(archive: Archive, statement: str, facts: dict[str, Any]) -> dict[TaskId, Past]:
    """Returns the tasks that a statement selects."""
    async with archive.within(SEARCH_SEC) as connection:
        cursor = await connection.execute(statement.encode(), facts)
        found = [past_in(row) for row in await cursor.fetchall()]
    return {past.id: past for past in found}


def past_in(row: Sequence[Any]) -> Past:
    """Returns a row as a Past."""
    id, life, state, definition, result, record, dag = row
    place = None if dag is None else DagId.from_ulid(TaskId.parse(dag).ulid)
    return Past(TaskId.parse(id), life, state, definition, result or b"", record, place)
