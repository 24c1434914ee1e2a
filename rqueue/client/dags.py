"""A DAG as its producer holds it: waited for, looked at, given up, paused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from rqueue.client import door
from rqueue.client.handle import Handle, outcome
from rqueue.errors import DagEnded, DagFailed, ResultTimeout
from rqueue.model.dag import Dag, DagStatus
from rqueue.model.ids import TaskId
from rqueue.model.state import State
from rqueue.store import dags

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.client.desk import Desk
    from rqueue.model.ids import DagId
    from rqueue.model.plan import Plan
    from rqueue.model.task import Task
    from rqueue.store.shard import Shard


class DagHome(Protocol):
    """What the handle of a DAG asks of its queue."""

    desk: Desk
    shard: Shard

    async def get(self, task: str) -> Task: ...

    async def state(self, task: str) -> State: ...

    async def cancel(self, task: str, reason: str = "") -> bool: ...

    async def ended(self, task: TaskId | DagId) -> None: ...

    async def submit_plan(self, plan: Plan) -> DagHandle: ...


class Node(Handle):
    """One task of a DAG: a handle that knows the task's name there, which is its id where it was
    given none.
    """

    __slots__ = ("name",)

    def __init__(self, id: TaskId, queue: DagHome, name: str | None = None) -> None:
        super().__init__(id, True, queue)
        self.name = name or str(id)

    def __repr__(self) -> str:
        return f"Node({self.name!r})"


class DagHandle:
    """One DAG that was submitted. Its calls raise DagNotFound where it is not there any more."""

    def __init__(self, id: DagId, queue: DagHome) -> None:
        self.id = id
        self.queue = queue

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    async def status(self) -> Dag:
        """The DAG as it is now."""
        return await dags.read(self.queue.shard, self.id)

    async def wait(self, timeout: float | None = None) -> Dag:  # noqa: ASYNC109 (the public name)
        """The DAG, as soon as it has completed. Raises DagFailed when a task of it is dead or it
        was cancelled, where its rule is `continue` after all else has ended, and ResultTimeout
        after `timeout` seconds; the DAG goes on then.
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
        """The DAG when it has ended, or stands still until somebody helps."""
        await self.queue.ended(self.id)
        found = await self.status()
        while found.spec.on_failure == "continue" and not found.ended:
            # A dead task holds up nothing else here: each of the others comes to its end.
            for task in await dags.members(self.queue.shard, self.id):
                await self.queue.ended(TaskId.from_ulid(task))
            found = await self.status()
        return found

    async def tasks(self) -> list[Node]:
        """Its tasks, each after those that it waits for; spawned ones come last."""
        return [Node(task.id, self.queue, task.spec.name) for task in await self.read()]

    async def results(self) -> dict[str, JsonValue]:
        """What its tasks have returned so far, by their names (ids, where they have none). Raises
        ResultMissing where one of them is kept as an artifact that is gone.
        """
        done = [task for task in await self.read() if task.state is State.COMPLETED]
        # Most are whole as they were read.
        whole = [await self.queue.get(one.id) if one.result_artifact else one for one in done]
        return {task.spec.name or str(task.id): outcome(task) for task in whole}

    async def read(self) -> list[Task]:
        """All that is known of its tasks."""
        members = await dags.members(self.queue.shard, self.id)
        found = await self.queue.desk.reader.read(members)
        return [task for task in found if task is not None]

    async def cancel(self, reason: str = "") -> bool:
        """Gives up all of it that has not ended; whether there was anything to give up."""
        try:
            why = door.reason_of(reason) or "cancelled"
            return await dags.cancel(self.queue.shard, self.id, why) > 0
        except DagEnded:
            return False

    async def pause(self) -> None:
        """Hands out nothing more of it until it is resumed; what runs, runs on."""
        await dags.pause(self.queue.shard, self.id)

    async def resume(self) -> None:
        """Hands it out again."""
        await dags.resume(self.queue.shard, self.id)
