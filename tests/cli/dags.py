"""DAGs for tests: submitted, and run up to a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rqueue import DagId, Lease, TaskId
from tests.harness import Harness

# The dependencies of each task, by names.
Shape = Mapping[str, Sequence[str]]
DIAMOND: Shape = {"research": [], "design": ["research"], "build": ["research", "design"]}


async def submitted(harness: Harness, shape: Shape = DIAMOND, **options: Any) -> DagId:
    """Submits a DAG whose tasks have their names as types."""
    tasks = [{"type": name, "name": name, "after": list(above)} for name, above in shape.items()]
    return (await harness.queue.dags.submit({"tasks": tasks, **options})).id


async def running(harness: Harness, name: str) -> Lease:
    """Claims and starts a task of a DAG."""
    (lease,) = await harness.queue.claim(worker="w1", types=[name])
    await lease.start()
    return lease


async def complete(harness: Harness, *names: str) -> None:
    """Completes tasks of a DAG, one after the other."""
    for name in names:
        await (await running(harness, name)).complete()


async def die(harness: Harness, name: str) -> TaskId:
    """Fails a task of a DAG permanently."""
    lease = await running(harness, name)
    await lease.fail("error", "no\x1b[2J paper", permanent=True)
    return lease.id


async def ids(harness: Harness, dag: str) -> dict[str, str]:
    """The ids of a DAG's tasks by their types."""
    graph = await harness.queue.dags.show(dag)
    return {task.type: id for id, task in graph.tasks.items()}
