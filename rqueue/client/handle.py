"""A handle: one task as its producer holds it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rqueue.errors import ResultMissing, ResultTimeout, TaskCancelled, TaskDead, TaskNotFound
from rqueue.model.reference import Output, output_of
from rqueue.model.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task


class Home(Protocol):
    """What a handle asks of its queue."""

    async def get(self, task: str) -> Task: ...

    async def state(self, task: str) -> State: ...

    async def cancel(self, task: str, reason: str = "") -> bool: ...

    async def ended(self, task: TaskId) -> None: ...


@dataclass(slots=True)
class Handle:
    """The task that answers for an enqueue: a new one, or one that was there (`created` False)."""

    id: TaskId
    created: bool
    queue: Home = field(repr=False, compare=False)

    @property
    def output(self) -> Any:
        """What the task will have returned, as an argument of another that runs after it: it fits
        every type, and is checked when it is there.
        """
        return Output(output_of(self.id))

    async def status(self) -> State:
        """Where the task is in its life."""
        return await self.queue.state(self.id)

    async def task(self) -> Task:
        """The whole task as it is now."""
        return await self.queue.get(self.id)

    async def cancel(self, reason: str = "") -> bool:
        """Ends the task if it has not ended; whether it was there to cancel."""
        return await self.queue.cancel(self.id, reason)

    async def result(self, timeout: float | None = None) -> JsonValue:  # noqa: ASYNC109 (the public name)
        """What the handler returned, as soon as it has. Raises TaskDead, TaskCancelled, or
        ResultTimeout after `timeout` seconds; the task goes on then. ResultMissing where
        it is kept as an artifact that is gone, ArtifactsUnavailable where that cannot be asked.
        """
        try:
            async with asyncio.timeout(timeout):
                await self.queue.ended(self.id)
                # Its turn to be read may come, and no answer: that is waiting, too.
                task = await self.task()
        except TimeoutError:
            raise ResultTimeout(self.id, after=timeout or 0.0) from None
        return outcome(task)


def outcome(task: Task) -> JsonValue:
    """The result of a task that has ended, or the error that says why there is none."""
    match task.state:
        case State.COMPLETED if task.result_missing:
            raise ResultMissing(task.id, artifact=str(task.result_artifact))
        case State.COMPLETED:
            return task.result
        case State.DEAD_LETTERED:
            reason, message = task.failure_reason or "", task.last_error or ""
            raise TaskDead(task.id, reason=reason, message=message)
        case State.CANCELLED:
            raise TaskCancelled(task.id, reason=task.cancel_reason or "")
        case _:
            raise TaskNotFound(task.id)
