"""`queue.dags`: submits, reads, cancels, pauses and retries whole DAGs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rqueue.archive.dag_rows import read_dag
from rqueue.archive.reader import Wanted
from rqueue.clock import SYSTEM
from rqueue.dags import store as dag_store
from rqueue.dags.builder import DagBuilder, submit_plan
from rqueue.dags.graph import missing, ordered
from rqueue.dags.handle import DagHandle
from rqueue.dags.view import DagGraph, alone
from rqueue.errors import DagEnded, DagNotFound, InvalidGraph, InvalidTask, TaskError, TaskNotFound
from rqueue.producer import arguments
from rqueue.task.dag import DagSpec
from rqueue.task.fields import dag_reference, task_reference
from rqueue.task.ids import DagId, TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.dags.builder import Asked, Maker
    from rqueue.dags.handle import DagQueue
    from rqueue.dags.plan import Plan
    from rqueue.dead.admin import DeadOperations
    from rqueue.operations import Operations, Progress
    from rqueue.task.dag import Dag
    from rqueue.task.spec import Call
    from rqueue.task.task import Task

# The reason that is stored with each task by default.
NO_REASON = "the DAG was cancelled"
ALONE = "belongs to no DAG: pause its type instead, and give it a max_cost_usd"


@dataclass(slots=True)
class Retried:
    """The result of retrying the dead tasks of a DAG; cancelled tasks are not retried."""

    dag: DagId
    retried: list[TaskId] = field(default_factory=list)
    refused: dict[TaskId, str] = field(default_factory=dict)
    cancelled: list[TaskId] = field(default_factory=list)


class Dags:
    """`queue.dags`; the builder is `queue.dag`.

    A DAG is named by its id in any form, or by one of its tasks. A single task is a DAG of one.
    """

    def __init__(self, queue: DagQueue, operations: Operations, dead: DeadOperations) -> None:
        self._queue = queue
        self._operations = operations
        self._dead = dead
        self._shard = queue.shard

    # The producer.

    async def submit(self, plan: Plan | Mapping[str, Any]) -> DagHandle:
        """Submits a whole DAG that is given as a Plan or as a YAML or JSON mapping. Raises
        InvalidGraph with the faulty path, InvalidTask and the other SubmitErrors; nothing is
        submitted then.
        """
        return await submit_plan(self._queue, plan)

    async def chain(self, *calls: Asked, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run one after the other; `previous` stands for the output of the
        preceding task. Options are those of `queue.dag`.
        """
        async with self._build(title, options) as dag:
            dag.chain(*calls)
        return dag

    async def group(self, *calls: Asked, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run in parallel; `results` returns the outputs available so far."""
        async with self._build(title, options) as dag:
            for call in calls:
                dag.add(call)
        return dag

    async def chord(
        self,
        calls: Sequence[Asked],
        into: Call | Maker,
        *,
        title: str | None = None,
        **options: Any,
    ) -> DagHandle:
        """Submits tasks that run in parallel, and one that receives the list of their outputs: as
        its first argument, or in place of `previous` in a call.
        """
        async with self._build(title, options) as dag:
            dag.gather([dag.add(call) for call in calls], into)
        return dag

    def _build(self, title: str | None, options: Mapping[str, Any]) -> DagBuilder:
        return DagBuilder(DagSpec.parse({"title": title, **options}), self._queue)

    # The operator.

    async def get(self, dag: str) -> DagHandle:
        """The handle of a DAG by its id in any form; raises DagNotFound."""
        handle = DagHandle(DagId.parse(dag), self._queue)
        await handle.status()
        return handle

    async def list(self) -> AsyncIterator[Dag]:
        """The DAGs of more than one task, newest first, read in pages."""
        async for dag in dag_store.walk(self._shard):
            yield dag

    async def status(self, dag: str) -> Dag:
        """A DAG from Redis, or from the archive if it has left Redis; raises DagNotFound."""
        try:
            return (await self._found(dag))[0]
        except DagNotFound:
            return await self._past(dag)

    async def show(self, dag: str) -> DagGraph:
        """A DAG with its tasks, from Redis or the archive; raises DagNotFound."""
        try:
            return await self._present(dag)
        except DagNotFound:
            found = await self._past(dag)
        return DagGraph.of(found, await self._past_tasks(found), SYSTEM.now())

    async def id_of(self, dag: str) -> DagId:
        """The id of a DAG that may be named by one of its tasks."""
        return (await self._found(dag))[0].id

    async def cancel(self, dag: str, reason: str = "") -> int:
        """Cancels all tasks of a DAG that have not ended; returns their number. Raises DagNotFound
        and DagEnded.
        """
        why = arguments.reason_of(reason) or NO_REASON
        found, lone = await self._found(dag)
        if lone is None:
            return await dag_store.cancel(self._shard, found.id, why)
        if not await self._operations.cancel(lone.id, reason=why, dependents="cascade"):
            raise DagEnded(found.id, found.status)
        return 1

    async def pause(self, dag: str) -> None:
        """Pauses a DAG: none of its tasks is claimed until it is resumed; running tasks continue.
        Raises DagNotFound, DagEnded, and InvalidTask for a single task.
        """
        await dag_store.pause(self._shard, (await self._grown(dag)).id)

    async def resume(self, dag: str) -> None:
        """Resumes a paused DAG; raises the errors of `pause`."""
        found = await self._grown(dag)
        if found.ended and not found.paused:
            raise DagEnded(found.id, found.status)
        await dag_store.resume(self._shard, found.id)

    async def set_budget(self, dag: str, usd: float | None) -> None:
        """Sets the budget of a DAG, None for no limit; raises InvalidTask and DagNotFound."""
        budget = DagSpec.parse({"budget_usd": usd}).budget_usd
        await dag_store.set_budget(self._shard, (await self._grown(dag)).id, budget)

    async def retry(self, dag: str, *, progress: Progress | None = None) -> Retried:
        """Retries every dead task of a DAG; `progress` is called with the number done and the
        total.
        """
        graph = await self.show(dag)
        if graph.dag.closing:
            # A cancellation in progress would cancel the retried tasks, so it is finished first.
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

    async def _present(self, dag: str) -> DagGraph:
        """A DAG in Redis with its tasks; raises DagNotFound."""
        found, lone = await self._found(dag)
        if lone is not None:
            return DagGraph.of(found, [lone], SYSTEM.now())
        read = await self._operations.reader.read(await dag_store.members(self._shard, found.id))
        # The DAG is read after its tasks: if a task is final here, the counts include it.
        now = await dag_store.read(self._shard, found.id)
        return DagGraph.of(now, [task for task in read if task is not None], SYSTEM.now())

    async def _past(self, dag: str) -> Dag:
        """A DAG from the archive; raises DagNotFound."""
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

    async def _past_tasks(self, dag: Dag) -> Sequence[Task]:
        """The tasks of a DAG that has left Redis, each after its dependencies."""
        if self._operations.past is None:
            return []
        wanted = Wanted(dag=dag.id.uuid)
        known = {str(task.id): task async for task in self._operations.past.find(wanted)}
        named = {str(task.spec.external_id): id for id, task in known.items()}
        edges = {
            id: [named.get(up, up) for up in known[id].spec.depends_on] for id in sorted(known)
        }
        return [known[id] for id in ordered(edges, known=missing(edges))]

    async def _grown(self, dag: str) -> Dag:
        """A DAG that has a record of its own; raises InvalidTask for a single task."""
        found, lone = await self._found(dag)
        if lone is not None:
            raise InvalidTask("dag", f"{lone.id} {ALONE}")
        return found

    async def _found(self, dag: str) -> tuple[Dag, Task | None]:
        """The DAG of an id, and its task if that is a single one; raises DagNotFound."""
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
            return alone(task), task
        return await dag_store.read(self._shard, task.dag), None
