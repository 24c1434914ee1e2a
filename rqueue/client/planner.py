"""The half of a queue that takes DAGs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rqueue.client.building import Asked, DagBuilder, Maker
from rqueue.client.dags import DagHandle, DagHome, Node
from rqueue.client.plans import planting_of, refuse_missing
from rqueue.model.call import SAME_TASK, Call, written
from rqueue.model.dag import Dag, DagSpec
from rqueue.model.ids import DagId
from rqueue.model.plan import Plan, within
from rqueue.store import dags, planting

if TYPE_CHECKING:
    from rqueue.client.drafts import Drafter
    from rqueue.hooks import Hooks
    from rqueue.model.plan import PlanTask


NEVER = object()


class Planner(DagHome):
    """What producers do with DAGs."""

    drafter: Drafter
    hooks: Hooks

    def dag(
        self,
        title: str | None = None,
        *,
        on_complete: Plan | DagBuilder | None = None,
        **options: Any,
    ) -> DagBuilder:
        """A DAG to be built in an `async with` block, at whose end it is submitted. Options are
        `created_by`, `on_failure`, `failure_threshold`, `budget_usd` and `spawn`; `on_complete` is
        another DAG that is submitted when this one has completed, once. Raises InvalidTask.
        """
        spec = DagSpec.parse({"title": title, **options})
        return DagBuilder(spec, self, on_complete=on_complete)

    async def submit_plan(self, plan: Plan | Mapping[str, Any]) -> DagHandle:
        """Takes a whole DAG, as YAML or JSON describe it; raises InvalidGraph with the path that is
        wrong, InvalidTask and the other SubmitErrors, and then nothing was written.
        """
        known = plan if isinstance(plan, Plan) else Plan.parse(plan)
        whole = await self.whole(known)
        found = planting_of(whole, self.drafter)
        await refuse_missing(self.shard, whole, found)
        await planting.submit(self.shard, found)
        if self.hooks.middleware:
            await self.hooks.after_submit([Node(task.id, self, task.name) for task in whole.tasks])
        return DagHandle(known.id, self)

    async def whole(self, plan: Plan) -> Plan:
        """The plan with the options of its types' handlers, and as the middleware leaves it."""
        tasks = [await self.whole_task(task) for task in plan.tasks]
        following = plan.on_complete
        if following is not None:
            # What is submitted later is submitted as it is now: elsewhere nobody knows of these.
            with within("on_complete"):
                following = await self.whole(following)
        return replace(plan, tasks=tasks, on_complete=following)

    async def whole_task(self, task: PlanTask) -> PlanTask:
        """One task of it. What makes the tasks of its type the same as others is not for it."""
        with within(task.name):
            call = self.drafter.completed(written(task.fields))
        handler = self.drafter.handlers.get(call.type)
        if handler is not None:
            own = {name: handler.options[name] for name in SAME_TASK if name in handler.options}
            asked = {name: v for name, v in call.options.items() if own.get(name, NEVER) != v}
            call = replace(call, options=asked)
        if self.hooks.middleware:
            with within(task.name):
                call = await self.hooks.before_submit(call)
        return replace(task, fields=call.fields())

    async def get_dag(self, dag: str) -> DagHandle:
        """The handle of a DAG by its id in any form; raises DagNotFound."""
        handle = DagHandle(DagId.parse(dag), self)
        await handle.status()
        return handle

    async def dags(self) -> AsyncIterator[Dag]:
        """The DAGs of the queue, the newest first, read as they are walked."""
        async for dag in dags.walk(self.shard):
            yield dag

    async def chain(self, *calls: Asked, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run one after the other; `previous` is the output of the one before.
        Options are those of `dag`.
        """
        async with self.dag(title, **options) as dag:
            dag.chain(*calls)
        return dag

    async def group(self, *calls: Asked, title: str | None = None, **options: Any) -> DagHandle:
        """Submits tasks that run side by side; `results` gives what is there of them."""
        async with self.dag(title, **options) as dag:
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
        """Submits tasks that run side by side, and one that is given the list of their outputs: as
        its first argument, or where `previous` stands in a call.
        """
        async with self.dag(title, **options) as dag:
            dag.gather([dag.add(call) for call in calls], into)
        return dag
