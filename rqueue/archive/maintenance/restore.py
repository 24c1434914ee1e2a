"""Puts ended tasks and DAGs back as new work, from what the archive has of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rqueue.archive import reader as archive_reader
from rqueue.archive.maintenance.verify import on_their_way
from rqueue.core.reader import outputs
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import dag_draft_of
from rqueue.dead.rebuild import Rebuilding, Restored, incomplete, referred
from rqueue.errors import DagNotFound, InvalidTask, NotArchived, RQueueError, WrongState
from rqueue.producer.drafts import Drafter
from rqueue.producer.earlier import submit_new
from rqueue.task.fields import dag_reference
from rqueue.task.ids import DagId
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader, Past
    from rqueue.clock import Clock
    from rqueue.operations import Operations
    from rqueue.task.ids import TaskId

NO_LIFE = "the archive does not have its life {}; `rqueue archive verify` tells whether it is lost"
MISSING = "{} comes without {} of its {} tasks, which the archive does not have"


class Restorer:
    """Puts back what one queue has ended. What is put back goes past handlers' options and the
    middleware of this process: it is what it was. `earlier` knows what was restored and completed
    before Redis forgot the key of that.
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
        """One task; raises TaskNotFound, WrongState and NotArchived."""
        now = await self.operations.get(task)
        old = now.id
        if now.state not in FINAL:
            raise WrongState(old, found=now.state, wanted=FINAL)
        read = partial(archive_reader.by_id, self.archive, self.queue, [old])
        lives = await self.archived(old, {old: now.life}, read)
        if not lives:
            raise InvalidTask("task", f"cannot be restored: {NO_LIFE.format(now.life)}")
        rebuilding = await self.rebuilding(lives)
        if old not in rebuilding.ids:
            raise InvalidTask("task", f"cannot be restored: {'; '.join(rebuilding.notes)}")
        fields = rebuilding.fields(old)
        # Its own key, which no other has: the old one's would answer with the old one.
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
        """A whole DAG, or what of it did not complete; raises DagNotFound, InvalidTask and
        NotArchived.
        """
        id = dag_reference(dag)
        if not isinstance(id, DagId):
            raise DagNotFound(dag)
        read = partial(archive_reader.by_dag, self.archive, self.queue, id)
        whole = await self.archived(id, await self.ended(id), read)
        if not whole:
            raise DagNotFound(dag)
        spec, following, total = await archive_reader.dag_past(self.archive, self.queue, id)
        rebuilding = await self.rebuilding(chosen(whole, incomplete), whole)
        rebuilding.drop_idle()
        if len(whole) < total:
            rebuilding.notes.append(MISSING.format(id, total - len(whole), total))
        if following is not None:
            rebuilding.notes.append(f"{id} was followed by another DAG, which is left out")
        if not rebuilding.ids:
            raise InvalidTask("dag", f"{id} has nothing to restore")
        plan = rebuilding.plan(spec)
        found = dag_draft_of(plan, self.drafter)
        if not dry_run:
            await dag_submit.submit(self.shard, found)
        return Restored(dict(rebuilding.ids), plan.id, tuple(rebuilding.notes))

    async def ended(self, dag: DagId) -> dict[TaskId, int]:
        """In which life each task of a DAG has ended, of those that the queue still has. Raises
        InvalidTask where something may still run.
        """
        try:
            found = await dag_store.read(self.shard, dag)
            members = await dag_store.members(self.shard, dag)
        except DagNotFound:
            return {}
        tasks = [task for task in await self.operations.reader.read(members) if task is not None]
        if not found.ended or any(task.state not in FINAL for task in tasks):
            raise InvalidTask("dag", f"{dag} is not over: wait for it, or cancel it first")
        return {task.id: task.life for task in tasks}

    async def archived(
        self,
        what: str,
        ended: Mapping[TaskId, int],
        read: Callable[[], Awaitable[dict[TaskId, Past]]],
    ) -> dict[TaskId, Past]:
        """What the archive has, without what has `ended` in a later life than that. Raises
        NotArchived while such a one is on its way.
        """
        found = await read()
        late = {(task, life) for task, life in ended.items() if not is_in(found, task, life)}
        if late:
            waiting = await on_their_way(self.shard, late)
            if waiting:
                raise NotArchived(what, len(waiting))
            # What has left the outbox meanwhile has its row by now.
            found = await read()
        return {task: one for task, one in found.items() if one.life >= ended.get(task, 0)}

    async def rebuilding(
        self, lives: Mapping[TaskId, Past], others: Mapping[TaskId, Past] | None = None
    ) -> Rebuilding:
        """What is to be begun anew, with all that is known of what it was after."""
        outside = referred(lives)
        known = await archive_reader.by_id(self.archive, self.queue, outside) if outside else {}
        states = await outputs(self.shard, [task.ulid for task in outside])
        there = {
            task: found.state
            for task, found in zip(outside, states, strict=True)
            if found.state is not None
        }
        found = Rebuilding(lives, {**known, **(others or {})}, there, self.clock.now())
        found.prepare()
        return found


def is_in(lives: Mapping[TaskId, Past], task: TaskId, life: int) -> bool:
    """Whether a task is among these with this life, or a later one."""
    return task in lives and lives[task].life >= life


def chosen(whole: Mapping[TaskId, Past], only_incomplete: bool) -> Mapping[TaskId, Past]:
    """What of a DAG is to run anew."""
    return incomplete(whole) if only_incomplete else whole
