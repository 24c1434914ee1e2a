"""DAGs to look at: submitted, and brought as far as a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rqueue import DagId, Lease, TaskId
from tests.house import House

# What waits for what, by names.
Shape = Mapping[str, Sequence[str]]
DIAMOND: Shape = {"research": [], "design": ["research"], "build": ["research", "design"]}


async def planted(house: House, shape: Shape = DIAMOND, **options: Any) -> DagId:
    """A DAG whose tasks have their names as types."""
    tasks = [{"type": name, "name": name, "after": list(above)} for name, above in shape.items()]
    return (await house.queue.submit_plan({"tasks": tasks, **options})).id


async def running(house: House, name: str) -> Lease:
    """A task of a DAG that a worker has started."""
    (lease,) = await house.queue.claim(worker="w1", types=[name])
    await lease.start()
    return lease


async def complete(house: House, *names: str) -> None:
    """Lets tasks of a DAG complete, one after the other."""
    for name in names:
        await (await running(house, name)).complete()


async def die(house: House, name: str) -> TaskId:
    """Lets a task of a DAG fail for good."""
    lease = await running(house, name)
    await lease.fail("error", "no\x1b[2J paper", permanent=True)
    return lease.id


async def ids(house: House, dag: str) -> dict[str, str]:
    """The ids of a DAG's tasks by their types."""
    graph = await house.queue.dag_desk.graph(dag)
    return {task.type: id for id, task in graph.tasks.items()}
