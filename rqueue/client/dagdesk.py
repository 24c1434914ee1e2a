"""Operating DAGs while they run: looking at one with its tasks, ending, pausing and reviving it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.archive.dags import read_dag
from rqueue.archive.wanted import Wanted
from rqueue.client import door
from rqueue.client.daggraph import DagGraph, alone
from rqueue.clock import SYSTEM
from rqueue.errors import (
    DagEnded,
    DagNotFound,
    InvalidGraph,
    InvalidTask,
    TaskError,
    TaskNotFound,
)
from rqueue.model.dag import DagSpec
from rqueue.model.field import dag_reference, task_reference
from rqueue.model.graph import missing, ordered
from rqueue.model.ids import DagId, TaskId
from rqueue.model.state import State
from rqueue.store import dags

if TYPE_CHECKING:
    from rqueue.client.desk import Desk
    from rqueue.client.ending import Told
    from rqueue.model.dag import Dag
    from rqueue.model.task import Task

# Kept with each task where nobody says why.
NO_REASON = "the DAG was cancelled"
ALONE = "is alone, in no DAG: pause its type instead, and give it a max_cost_usd"


@dataclass(slots=True)
class Retried:
    """What became of the dead tasks of a DAG; the cancelled ones stay so."""

    dag: DagId
    revived: list[TaskId] = field(default_factory=list)
    refused: dict[TaskId, str] = field(default_factory=dict)
    cancelled: list[TaskId] = field(default_factory=list)


class DagDesk:
    """The operator's moves on the DAGs of one shard.

    A DAG is named by its id in any form, or by a task of it. A task that is alone is a DAG of one.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shard = desk.shard

    async def get(self, dag: str) -> Dag:
        """A DAG as it is now, or as it ended, where it has left Redis; raises DagNotFound."""
        try:
            return (await self.found(dag))[0]
        except DagNotFound:
            return await self.past(dag)

    async def graph(self, dag: str) -> DagGraph:
        """A DAG with its tasks, from Redis or the archive; raises DagNotFound."""
        try:
            return await self.present(dag)
        except DagNotFound:
            found = await self.past(dag)
        return DagGraph.of(found, await self.past_tasks(found), SYSTEM.now())

    async def present(self, dag: str) -> DagGraph:
        """A DAG that Redis still has, with its tasks; raises DagNotFound."""
        found, lone = await self.found(dag)
        if lone is not None:
            return DagGraph.of(found, [lone], SYSTEM.now())
        read = await self.desk.reader.read(await dags.members(self.shard, found.id))
        # Its own numbers after its tasks: one that has ended has ended in both.
        now = await dags.read(self.shard, found.id)
        return DagGraph.of(now, [task for task in read if task is not None], SYSTEM.now())

    async def past(self, dag: str) -> Dag:
        """A DAG that the archive alone has; raises DagNotFound."""
        reader, named = self.desk.past, dag_reference(str(dag))
        if reader is not None and not isinstance(named, DagId):
            task = await reader.get(task_reference(named))
            named = named if task is None or task.dag is None else task.dag
        found = None
        if reader is not None and isinstance(named, DagId):
            found = await read_dag(reader, named)
        if found is None:
            raise DagNotFound(dag)
        return found

    async def past_tasks(self, dag: Dag) -> list[Task]:
        """The tasks of a DAG that has left Redis, each after those that it waits for."""
        if self.desk.past is None:
            return []
        wanted = Wanted(dag=dag.id.uuid)
        known = {str(task.id): task async for task in self.desk.past.find(wanted)}
        named = {str(task.spec.external_id): id for id, task in known.items()}
        edges = {
            id: [named.get(up, up) for up in known[id].spec.depends_on] for id in sorted(known)
        }
        return [known[id] for id in ordered(edges, known=missing(edges))]

    async def walk(self) -> AsyncIterator[Dag]:
        """The DAGs of more than one task, the newest first."""
        async for dag in dags.walk(self.shard):
            yield dag

    async def cancel(self, dag: str, reason: str = "") -> int:
        """Gives up all of a DAG that has not ended; how many tasks that were. Raises DagNotFound
        and DagEnded.
        """
        why = door.reason_of(reason) or NO_REASON
        found, lone = await self.found(dag)
        if lone is None:
            return await dags.cancel(self.shard, found.id, why)
        if not await self.desk.cancel(lone.id, reason=why, dependents="cascade"):
            raise DagEnded(found.id, found.status)
        return 1

    async def pause(self, dag: str) -> None:
        """Hands out nothing more of a DAG until it is resumed; raises DagNotFound, DagEnded, and
        InvalidTask for a task that is alone.
        """
        await dags.pause(self.shard, (await self.grown(dag)).id)

    async def resume(self, dag: str) -> None:
        """Hands a paused DAG out again; raises what `pause` does."""
        found = await self.grown(dag)
        if found.ended and not found.paused:
            raise DagEnded(found.id, found.status)
        await dags.resume(self.shard, found.id)

    async def set_budget(self, dag: str, usd: float | None) -> None:
        """Sets what the tasks of a DAG together may cost; raises InvalidTask and DagNotFound."""
        budget = DagSpec.parse({"budget_usd": usd}).budget_usd
        await dags.set_budget(self.shard, (await self.grown(dag)).id, budget)

    async def retry(self, dag: str, *, told: Told | None = None) -> Retried:
        """Gives every dead task of a DAG a new life; `told` hears how many of how many are done."""
        graph = await self.graph(dag)
        if graph.dag.closing:
            # What is just being given up would be given up again.
            await dags.cancel(self.shard, graph.dag.id)
            graph = await self.graph(dag)
        each = graph.tasks.values()
        dead = [task for task in each if task.state is State.DEAD_LETTERED]
        found = Retried(graph.dag.id)
        found.cancelled += [task.id for task in each if task.state is State.CANCELLED]
        for done, task in enumerate(dead, 1):
            try:
                await self.desk.live_again(task, self.desk.plain("retry"))
                found.revived.append(task.id)
            except (TaskError, DagEnded, InvalidGraph) as error:
                found.refused[task.id] = str(error)
            if told is not None:
                told(done, len(dead))
        return found

    async def id_of(self, dag: str) -> DagId:
        """Our id of a DAG that may be named by one of its tasks."""
        return (await self.found(dag))[0].id

    async def grown(self, dag: str) -> Dag:
        """A DAG of which something is kept beside its tasks; raises InvalidTask for a task that is
        alone.
        """
        found, lone = await self.found(dag)
        if lone is not None:
            raise InvalidTask("dag", f"{lone.id} {ALONE}")
        return found

    async def found(self, dag: str) -> tuple[Dag, Task | None]:
        """The DAG of an id, and the task that it is where that is alone; raises DagNotFound."""
        named = dag_reference(str(dag))
        if isinstance(named, DagId):
            try:
                return await dags.read(self.shard, named), None
            except DagNotFound:
                named = named.ulid
        try:
            task = await self.desk.get(named)
        except TaskNotFound:
            raise DagNotFound(dag) from None
        if task.dag is None:
            return alone(task), task
        return await dags.read(self.shard, task.dag), None
