"""Puts ended tasks and DAGs back as new work, from what the archive has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.archive import past
from rqueue.client.drafts import Drafter
from rqueue.client.plans import planting_of
from rqueue.client.rebuilding import Rebuilding, Restored, incomplete, referred
from rqueue.errors import DagNotFound, InvalidTask, RQueueError, TaskNotFound, WrongState
from rqueue.model.field import dag_reference
from rqueue.model.ids import DagId
from rqueue.model.spec import TaskSpec
from rqueue.model.state import FINAL, State
from rqueue.store import dags, planting
from rqueue.store.outputs import outputs
from rqueue.store.submits import submit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rqueue.archive.connection import Archive
    from rqueue.archive.past import Past
    from rqueue.client.desk import Desk
    from rqueue.clock import Clock
    from rqueue.model.ids import TaskId


class Restorer:
    """Puts back what one queue has ended. What is put back goes past handlers' options and the
    middleware of this process: it is what it was.
    """

    def __init__(self, archive: Archive, desk: Desk, clock: Clock) -> None:
        self.archive = archive
        self.desk = desk
        self.shard = desk.shard
        self.queue = desk.settings.name
        self.clock = clock
        self.drafter = Drafter(desk.settings, clock, by=desk.settings.principal)

    async def task(self, task: str, *, dry_run: bool) -> Restored:
        """One task; raises TaskNotFound and WrongState."""
        now = await self.desk.get(task)
        old = now.id
        if now.state not in FINAL:
            raise WrongState(old, found=now.state, wanted=FINAL)
        lives = await past.by_id(self.archive, self.queue, [old])
        if not lives:
            raise TaskNotFound(task)
        rebuilding = await self.rebuilding(lives)
        if old not in rebuilding.ids:
            raise InvalidTask("task", f"cannot be restored: {'; '.join(rebuilding.notes)}")
        fields = rebuilding.fields(old)
        # Its own key, which no other has: the old one's would answer with the old one.
        fields["idempotency_key"] = f"restored:{old}:{lives[old].life}"
        draft = self.drafter.of_spec(TaskSpec.parse(fields))
        new, created = rebuilding.ids[old], True
        if not dry_run:
            (taken,) = await submit(self.shard, [draft], ids=[new])
            if isinstance(taken, RQueueError):
                raise taken
            new, created = taken.id, taken.created
        return Restored({old: new}, notes=tuple(rebuilding.notes), created=created)

    async def dag(self, dag: str, *, incomplete: bool, dry_run: bool) -> Restored:
        """A whole DAG, or what of it did not complete; raises DagNotFound and InvalidTask."""
        id = dag_reference(dag)
        whole = await past.by_dag(self.archive, self.queue, id) if isinstance(id, DagId) else {}
        if not isinstance(id, DagId) or not whole:
            raise DagNotFound(dag)
        await self.refuse_open(id)
        spec, following = await past.dag_spec(self.archive, self.queue, id)
        rebuilding = await self.rebuilding(chosen(whole, incomplete), whole)
        if following is not None:
            rebuilding.notes.append(f"{id} was followed by another DAG, which is left out")
        if not rebuilding.ids:
            raise InvalidTask("dag", f"{id} has nothing to restore")
        plan = rebuilding.plan(spec)
        found = planting_of(plan, self.drafter)
        if not dry_run:
            await planting.submit(self.shard, found)
        return Restored(dict(rebuilding.ids), plan.id, tuple(rebuilding.notes))

    async def refuse_open(self, dag: DagId) -> None:
        """Raises InvalidTask for a DAG of which something may still run."""
        try:
            found = await dags.read(self.shard, dag)
        except DagNotFound:
            return
        if not found.ended:
            raise InvalidTask("dag", f"{dag} is not over: wait for it, or cancel it first")

    async def rebuilding(
        self, lives: Mapping[TaskId, Past], others: Mapping[TaskId, Past] | None = None
    ) -> Rebuilding:
        """What is to be begun anew, with all that is known of what it was after."""
        outside = referred(lives)
        known = await past.by_id(self.archive, self.queue, outside) if outside else {}
        states = await outputs(self.shard, [task.ulid for task in outside])
        there = {
            task
            for task, found in zip(outside, states, strict=True)
            if found.state not in (None, State.CANCELLED)
        }
        found = Rebuilding(lives, {**known, **(others or {})}, there, self.clock.now())
        found.prepare()
        return found


def chosen(whole: Mapping[TaskId, Past], only_incomplete: bool) -> Mapping[TaskId, Past]:
    """What of a DAG is to run anew."""
    return incomplete(whole) if only_incomplete else whole
