"""DAGs and families for tests of what running tasks spawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rqueue.client.plans import planting_of
from rqueue.model.ids import DagId, TaskId
from rqueue.model.plan import Plan
from rqueue.services.keeper import Keeper
from rqueue.store import dags, planting
from tests.house import House


async def planted(
    house: House, tasks: Mapping[str, Mapping[str, Any]], **facts: Any
) -> tuple[DagId, dict[str, TaskId]]:
    """A DAG of these tasks, submitted; its id and theirs."""
    rows = [{"name": name, **fields} for name, fields in tasks.items()]
    plan = Plan.parse({"tasks": rows, **facts})
    await planting.submit(house.queue.shard, planting_of(plan, house.queue.drafter))
    return plan.id, {task.name: task.id for task in plan.tasks}


async def settled(house: House, dag: DagId | None = None) -> Any:
    """Goes on with all that scripts have left to others; the DAG afterwards, if one is named."""
    queue = house.queue
    await house.promoter.tick()
    await Keeper(queue.shard, queue.drafter).tick()
    await house.promoter.tick()
    return None if dag is None else await dags.read(queue.shard, dag)


async def number_of_keys(house: House) -> int:
    """How many keys there are."""
    return len(await house.client.keys("*"))
