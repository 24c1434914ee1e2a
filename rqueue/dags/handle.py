"""The handle of a submitted DAG: waits, reads, cancels, pauses and resumes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from rqueue.dags import store as dag_store
from rqueue.errors import DagEnded, DagFailed, ResultTimeout
from rqueue.producer import arguments
from rqueue.producer.handle import Handle, outcome
from rqueue.task.dag import Dag, DagStatus
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.core.reader import Reader
    from rqueue.middleware import Hooks
    from rqueue.producer.drafts import Drafter
    from rqueue.store.shard import Shard
    from rqueue.task.forms import Form
    from rqueue.task.ids import DagId
    from rqueue.task.task import Task


class DagQueue(Protocol):
    """The parts of a queue that DAG handles and builders use."""

    shard: Shard
    drafter: Drafter
    hooks: Hooks

    @property
    def reader(self) -> Reader: ...

    async def get(self, task: str) -> Task: ...

    async def state(self, task: str) -> State: ...

    async def view(self, task: str, form: Form | None = None) -> dict[str, Any]: ...

    async def cancel(self, task: str, reason: str = "") -> bool: ...

    async def ended(self, task: TaskId | DagId) -> None: ...


class Node(Handle):
    """The handle of one task of a DAG. `name` is the name of the task in the DAG, by default its
    id.
    """

    __slots__ = ("name",)

    def __init__(self, id: TaskId, queue: DagQueue, name: str | None = None) -> None:
        super().__init__(id, True, queue)
        self.name = name or str(id)

    def __repr__(self) -> str:
        return f"Node({self.name!r})"


class DagHandle:
    """The handle of one DAG. Its methods raise DagNotFound if the DAG no longer exists."""

    def __init__(self, id: DagId, queue: DagQueue) -> None:
        self.id = id
        self.queue = queue

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    async def status(self) -> Dag:
        """Returns the current state of the DAG."""
        return await dag_store.read(self.queue.shard, self.id)

    async def wait(self, timeout: float | None = None) -> Dag:  # noqa: ASYNC109 (the public name)
        """Waits until the DAG has completed and returns it. Raises DagFailed if a task is dead or
        the DAG was cancelled; with `on_failure="continue"` only after all other tasks have ended.
        Raises ResultTimeout after `timeout` seconds; the DAG continues.
        """
        try:
            async with asyncio.timeout(timeout):
                found = await self.ended()
        except TimeoutError:
            raise ResultTimeout(self.id, after=timeout or 0.0) from None
        if found.status is not DagStatus.COMPLETED:
            raise DagFailed(self.id, status=found.status, reason=found.reason or "")
        return found

    async def ended(self) -> Dag:
        """Waits until the DAG has ended or cannot continue without an operator."""
        await self.queue.ended(self.id)
        found = await self.status()
        while found.spec.on_failure == "continue" and not found.ended:
            # With `continue` a dead task does not block the others: each of them ends.
            for task in await dag_store.members(self.queue.shard, self.id):
                await self.queue.ended(TaskId.from_ulid(task))
            found = await self.status()
        return found

    async def tasks(self) -> list[Node]:
        """Returns the tasks of the DAG, each after its dependencies. Spawned tasks come last."""
        return [Node(task.id, self.queue, task.spec.name) for task in await self.read()]

    async def results(self) -> dict[str, JsonValue]:
        """Returns the results of the completed tasks by name, or by id for tasks without a name.
        Raises ResultMissing if a result is stored as an artifact that was deleted.
        """
        done = [task for task in await self.read() if task.state is State.COMPLETED]
        # Results that are stored as artifacts are read by another call.
        whole = [await self.queue.get(one.id) if one.result_artifact else one for one in done]
        return {task.spec.name or str(task.id): outcome(task) for task in whole}

    async def read(self) -> list[Task]:
        """Returns the tasks of the DAG as stored in Redis."""
        members = await dag_store.members(self.queue.shard, self.id)
        found = await self.queue.reader.read(members)
        return [task for task in found if task is not None]

    async def cancel(self, reason: str = "") -> bool:
        """Cancels all tasks of the DAG that have not ended; returns whether there were any."""
        try:
            why = arguments.reason_of(reason) or "cancelled"
            return await dag_store.cancel(self.queue.shard, self.id, why) > 0
        except DagEnded:
            return False

    async def pause(self) -> None:
        """Pauses the DAG: none of its tasks is claimed until it is resumed, running tasks
        continue.
        """
        await dag_store.pause(self.queue.shard, self.id)

    async def resume(self) -> None:
        """Resumes the DAG."""
        await dag_store.resume(self.queue.shard, self.id)
