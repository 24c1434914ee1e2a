"""`queue.dags`: submits, reads, cancels, pauses and retries whole DAGs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rqueue.archive.dag_rows import read_dag
from rqueue.archive.filters import TaskFilter
from rqueue.clock import SYSTEM
from rqueue.dags import store as dag_store
from rqueue.dags.builder import DagBuilder, submit_plan
from rqueue.dags.graph import missing, ordered
from rqueue.dags.handle import DagHandle
from rqueue.dags.view import DagGraph, dag_of_one
from rqueue.errors import DagEnded, DagNotFound, InvalidGraph, InvalidTask, TaskError, TaskNotFound
from rqueue.producer import arguments
from rqueue.task.dag import DagSpec
from rqueue.task.fields import dag_reference, task_reference
from rqueue.task.ids import DagId, TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.dags.builder import AnyCall, Maker
    from rqueue.dags.handle import DagQueue
    from rqueue.dags.plan import Plan
    from rqueue.dead.admin import DeadOperations
    from rqueue.operations import Operations, Progress
    from rqueue.task.dag import Dag
    from rqueue.task.spec import Call
    from rqueue.task.task import Task

# The default reason of a cancellation; it is stored with each task.
NO_REASON = "the DAG was cancelled"
SINGLE = "belongs to no DAG; pause its type or set its max_cost_usd instead"


@dataclass(slots=True)
class Retried:
    """The result of retrying the dead tasks of a DAG; cancelled tasks are not retried."""

    dag: DagId
    retried: list[TaskId] = field(default_factory=list)
    refused: dict[TaskId, str] = field(default_factory=dict)
    cancelled: list[TaskId] = field(default_factory=list)


class Dags:
    """`queue.dags`; the builder is `queue.dag`.

    A DAG is named by its id in any form, or by the id of one of its tasks. A single task counts as
    a DAG of one task.
    """

    def __init__(self, queue: DagQueue, operations: Operations, dead: DeadOperations) -> None:
        self._queue = queue
        self._operations = operations
        self._dead = dead
        self._shard = queue.shard

    # For producers.

    async def submit(self, plan: Plan | Mapping[str, Any]) -> DagHandle:
        """Submits a whole DAG, given as a Plan or as a YAML or JSON mapping. Raises InvalidGraph
        with the faulty path, InvalidTask and the other SubmitErrors. If it raises one of these,
        nothing is submitted.
        """
        return await submit_plan(self._queue, plan)

    async def chain(self, *calls: AnyCall, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run one after the other. `previous` stands for the output of the
        preceding task. Options are those of `queue.dag`.
        """
        async with self._build(title, options) as dag:
            dag.chain(*calls)
        return dag

    async def group(self, *calls: AnyCall, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run in parallel; `results` returns the outputs available so far."""
        async with self._build(title, options) as dag:
            for call in calls:
                dag.add(call)
        return dag

    async def chord(
        self,
        calls: Sequence[AnyCall],
        into: Call | Maker,
        *,
        title: str | None = None,
        **options: Any,
    ) -> DagHandle:
        """Submits tasks that run in parallel, and a task that receives the list of their outputs,
        as its first argument or in place of `previous` in its call.
        """
        async with self._build(title, options) as dag:
            dag.gather([dag.add(call) for call in calls], into)
        return dag

    def _build(self, title: str | None, options: Mapping[str, Any]) -> DagBuilder:
        return DagBuilder(DagSpec.parse({"title": title, **options}), self._queue)

    # For operators.

    async def get(self, dag: str) -> DagHandle:
        """Returns the handle of a DAG, named by its id in any form. Raises DagNotFound."""
        handle = DagHandle(DagId.parse(dag), self._queue)
        await handle.status()
        return handle

    async def list(self) -> AsyncIterator[Dag]:
        """Yields the DAGs that have more than one task, newest first. Reads them in pages."""
        async for dag in dag_store.walk(self._shard):
            yield dag

    async def status(self, dag: str) -> Dag:
        """Returns a DAG from Redis, or from the archive if it has left Redis; raises
        DagNotFound.
        """
        try:
            return (await self._dag_and_task(dag))[0]
        except DagNotFound:
            return await self._archived(dag)

    async def show(self, dag: str) -> DagGraph:
        """Returns a DAG with its tasks, from Redis or the archive; raises DagNotFound."""
        try:
            return await self._in_redis(dag)
        except DagNotFound:
            found = await self._archived(dag)
        return DagGraph.of(found, await self._archived_tasks(found), SYSTEM.now())

    async def id_of(self, dag: str) -> DagId:
        """Returns the id of a DAG, which may be named by one of its tasks."""
        return (await self._dag_and_task(dag))[0].id

    async def cancel(self, dag: str, reason: str = "") -> int:
        """Cancels all tasks of a DAG that have not ended; returns their number. Raises DagNotFound
        and DagEnded.
        """
        why = arguments.reason_of(reason) or NO_REASON
        found, single = await self._dag_and_task(dag)
        if single is None:
            return await dag_store.cancel(self._shard, found.id, why)
        if not await self._operations.cancel(single.id, reason=why, dependents="cascade"):
            raise DagEnded(found.id, found.status)
        return 1

    async def pause(self, dag: str) -> None:
        """Pauses a DAG: none of its tasks is claimed until it is resumed, running tasks continue.
        Raises DagNotFound, DagEnded, and InvalidTask for a single task.
        """
        await dag_store.pause(self._shard, (await self._with_record(dag)).id)

    async def resume(self, dag: str) -> None:
        """Resumes a paused DAG; raises the errors of `pause`."""
        found = await self._with_record(dag)
        if found.ended and not found.paused:
            raise DagEnded(found.id, found.status)
        await dag_store.resume(self._shard, found.id)

    async def set_budget(self, dag: str, usd: float | None) -> None:
        """Sets the budget of a DAG, None for no limit; raises InvalidTask and DagNotFound."""
        budget = DagSpec.parse({"budget_usd": usd}).budget_usd
        await dag_store.set_budget(self._shard, (await self._with_record(dag)).id, budget)

    async def retry(self, dag: str, *, progress: Progress | None = None) -> Retried:
        """Retries every dead task of a DAG; `progress` is called with the number done and the
        total.
        """
        graph = await self.show(dag)
        if graph.dag.closing:
            # A cancellation in progress would cancel the retried tasks. It is finished first.
            await dag_store.cancel(self._shard, graph.dag.id)
            graph = await self.show(dag)
        each = graph.tasks.values()
        dead = [task for task in each if task.state is State.DEAD_LETTERED]
        found = Retried(graph.dag.id)
        found.cancelled += [task.id for task in each if task.state is State.CANCELLED]
        for done, task in enumerate(dead, 1):
            try:
                await self._dead.revive(task, self._operations.plain("retry"))
                found.retried.append(task.id)
            except (TaskError, DagEnded, InvalidGraph) as error:
                found.refused[task.id] = str(error)
            if progress is not None:
                progress(done, len(dead))
        return found

    async def _in_redis(self, dag: str) -> DagGraph:
        """Returns a DAG in Redis with its tasks; raises DagNotFound."""
        found, single = await self._dag_and_task(dag)
        if single is not None:
            return DagGraph.of(found, [single], SYSTEM.now())
        read = await self._operations.reader.read(await dag_store.members(self._shard, found.id))
        # The DAG is read after its tasks, so that its counts include each task that has ended.
        now = await dag_store.read(self._shard, found.id)
        return DagGraph.of(now, [task for task in read if task is not None], SYSTEM.now())

    async def _archived(self, dag: str) -> Dag:
        """Returns a DAG from the archive; raises DagNotFound."""
        reader, named = self._operations.past, dag_reference(str(dag))
        if reader is not None and not isinstance(named, DagId):
            task = await reader.get(task_reference(named))
            named = named if task is None or task.dag is None else task.dag
        found = None
        if reader is not None and isinstance(named, DagId):
            found = await read_dag(reader, named)
        if found is None:
            raise DagNotFound(dag)
        return found

    async def _archived_tasks(self, dag: Dag) -> Sequence[Task]:
        """Returns the tasks of a DAG that has left Redis, each after its dependencies."""
        if self._operations.past is None:
            return []
        wanted = TaskFilter(dag=dag.id.uuid)
        known = {str(task.id): task async for task in self._operations.past.find(wanted)}
        named = {str(task.spec.external_id): id for id, task in known.items()}
        edges = {
            id: [named.get(up, up) for up in known[id].spec.depends_on] for id in sorted(known)
        }
        return [known[id] for id in ordered(edges, known=missing(edges))]

    async def _with_record(self, dag: str) -> Dag:
        """Returns a DAG that has its own record. Raises InvalidTask for a single task, which has
        none.
        """
        found, single = await self._dag_and_task(dag)
        if single is not None:
            raise InvalidTask("dag", f"{single.id} {SINGLE}")
        return found

    async def _dag_and_task(self, dag: str) -> tuple[Dag, Task | None]:
        """Returns the DAG with this id, and the task if the DAG is a single task. Raises
        DagNotFound.
        """
        named = dag_reference(str(dag))
        if isinstance(named, DagId):
            try:
                return await dag_store.read(self._shard, named), None
            except DagNotFound:
                named = named.ulid
        try:
            task = await self._operations.get(named)
        except TaskNotFound:
            raise DagNotFound(dag) from None
        if task.dag is None:
            return dag_of_one(task), task
        return await dag_store.read(self._shard, task.dag), None
