"""DAGs for tests of spawning tasks and of faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import Plan, dag_draft_of
from rqueue.dags.resumer import Resumer
from rqueue.task.ids import DagId, TaskId
from tests.harness import Harness


async def submit_plan(
    harness: Harness, tasks: Mapping[str, Mapping[str, Any]], **facts: Any
) -> tuple[DagId, dict[str, TaskId]]:
    """Submits a DAG of these tasks; returns its id and theirs."""
    rows = [{"name": name, **fields} for name, fields in tasks.items()]
    plan = Plan.parse({"tasks": rows, **facts})
    await dag_submit.submit(
        harness.queue._internals.shard, dag_draft_of(plan, harness.queue._internals.drafter)
    )
    return plan.id, {task.name: task.id for task in plan.tasks}


async def settled(harness: Harness, dag: DagId | None = None) -> Any:
    """Runs the services that continue unfinished work; returns the DAG if one is given."""
    queue = harness.queue
    await harness.promoter.tick()
    await Resumer(queue._internals.shard, queue._internals.drafter).tick()
    await harness.promoter.tick()
    return None if dag is None else await dag_store.read(queue._internals.shard, dag)


async def number_of_keys(harness: Harness) -> int:
    """Returns the number of keys."""
    return len(await harness.client.keys("rq:*"))
