"""The handle of a task, for its producer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rqueue.errors import ResultMissing, ResultTimeout, TaskCancelled, TaskDead, TaskNotFound
from rqueue.task.references import Output, output_of
from rqueue.task.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.forms import Form
    from rqueue.task.ids import TaskId
    from rqueue.task.task import Task


class HandleQueue(Protocol):
    """The methods of a queue that a handle uses."""

    async def get(self, task: str) -> Task: ...

    async def state(self, task: str) -> State: ...

    async def view(self, task: str, form: Form | None = None) -> dict[str, Any]: ...

    async def cancel(self, task: str, reason: str = "") -> bool: ...

    async def ended(self, task: TaskId) -> None: ...


@dataclass(slots=True)
class Handle:
    """The task for an enqueue: a new one, or an existing one (`created` False)."""

    id: TaskId
    created: bool
    queue: HandleQueue = field(repr=False, compare=False)

    @property
    def output(self) -> Any:
        """The task's future result, as an argument of another task that runs after it. It fits
        every type, and is checked when there is a result.
        """
        return Output(output_of(self.id))

    async def status(self) -> State:
        """The state of the task."""
        return await self.queue.state(self.id)

    async def task(self) -> Task:
        """The whole task as it is now."""
        return await self.queue.get(self.id)

    async def view(self, form: Form | None = None) -> dict[str, Any]:
        """The task as one of the documents A, B or C shows it; by default that of the profile."""
        return await self.queue.view(self.id, form)

    async def cancel(self, reason: str = "") -> bool:
        """Cancels the task if it has not ended; whether it could be cancelled."""
        return await self.queue.cancel(self.id, reason)

    async def result(self, timeout: float | None = None) -> JsonValue:  # noqa: ASYNC109 (the public name)
        """What the handler returned, once the task has completed. Raises TaskDead, TaskCancelled,
        or ResultTimeout after `timeout` seconds; the task then continues. Raises ResultMissing
        where the result's artifact is gone, ArtifactsUnavailable where that cannot be read.
        """
        try:
            async with asyncio.timeout(timeout):
                await self.queue.ended(self.id)
                # The read may take long as well: the timeout includes it.
                task = await self.task()
        except TimeoutError:
            raise ResultTimeout(self.id, after=timeout or 0.0) from None
        return outcome(task)


def outcome(task: Task) -> JsonValue:
    """The result of a task that has ended, or the error for why there is none."""
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
