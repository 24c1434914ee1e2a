"""The parts of one queue, and the methods that handles call. Not part of the public interface.

Parts that not every process needs are imported at their first use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rqueue.clock import SYSTEM, Clock
from rqueue.errors import RQueueError
from rqueue.middleware import Hooks
from rqueue.producer.batcher import Batcher
from rqueue.producer.drafts import Drafter
from rqueue.producer.earlier import submit_new
from rqueue.producer.handle import Handle
from rqueue.producer.result_waiter import ResultWaiter
from rqueue.runtime import Runtime, has_server
from rqueue.task.ids import DagId
from rqueue.worker.handler import Registry

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.core.reader import Reader
    from rqueue.dead.admin import DeadOperations
    from rqueue.operations import Operations
    from rqueue.services import ServiceParts
    from rqueue.store.shard import Shard
    from rqueue.task.forms import Form
    from rqueue.task.ids import TaskId
    from rqueue.task.spec import Call
    from rqueue.task.state import State
    from rqueue.task.task import Task
    from rqueue.worker.executor import Parts
    from rqueue.worker.settle import Settler


class Local:
    """The parts that all callers in one event loop share."""

    def __init__(self, shard: Shard, earlier: ArchiveReader | None = None) -> None:
        self.batcher = Batcher(shard, earlier)
        self.result_waiter = ResultWaiter(shard)

    async def aclose(self) -> None:
        """Stops the background tasks. Callers that wait for results get StoreUnavailable."""
        await self.result_waiter.aclose()


class Internals:
    """The parts of one queue. `given` are the settings that its constructor received."""

    def __init__(self, name: str, runtime: Runtime, given: Mapping[str, Any]) -> None:
        self.name = name
        self.given = given
        self.runtime = runtime
        self.settings = runtime.settings
        self.clock: Clock = SYSTEM
        self.shard = runtime.shard
        self.locals: WeakKeyDictionary[asyncio.AbstractEventLoop, Local] = WeakKeyDictionary()
        self.registry = Registry()
        handlers, by = self.registry.handlers, self.settings.principal
        self.drafter = Drafter(self.settings, self.clock, handlers, by=by)
        self.hooks = Hooks()

    async def aclose(self) -> None:
        """Closes the running event loop's connections."""
        local = self.locals.pop(asyncio.get_running_loop(), None)
        if local is not None:
            await local.aclose()
        await self.runtime.aclose()

    @property
    def local(self) -> Local:
        """The parts of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self.locals.get(loop)
        if found is None:
            found = self.locals[loop] = Local(self.shard, self.runtime.earlier)
        return found

    @cached_property
    def operations(self) -> Operations:
        """Operations on tasks."""
        from rqueue.operations import Operations  # noqa: PLC0415

        runtime = self.runtime
        return Operations(self.shard, runtime.reader, self.settings, runtime.archive_reader)

    @cached_property
    def settler(self) -> Settler:
        """Settles tasks that are leased by hand."""
        from rqueue.worker.settle import Settler  # noqa: PLC0415

        reader, shelf = self.runtime.reader, self.runtime.shelf
        return Settler(self.shard, reader, self.settings, self.clock, shelf=shelf)

    @property
    def reader(self) -> Reader:
        """Reads tasks from Redis."""
        return self.runtime.reader

    @property
    def dead(self) -> DeadOperations:
        """Operations on dead tasks."""
        from rqueue.dead.admin import DeadOperations  # noqa: PLC0415

        archive = self.runtime.archive if has_server(self.settings) else None
        return DeadOperations(self.operations, archive)

    @property
    def service_parts(self) -> ServiceParts:
        """The parts that the scheduler's services need."""
        from rqueue.services import ServiceParts  # noqa: PLC0415

        runtime = self.runtime
        return ServiceParts(
            self.shard,
            runtime.reader,
            self.settings,
            runtime.archive,
            self.clock,
            Random(),
            runtime.earlier,
        )

    @property
    def parts(self) -> Parts:
        """The parts that a worker needs."""
        from rqueue.worker.executor import Parts  # noqa: PLC0415

        return Parts(
            shard=self.shard,
            reader=self.runtime.reader,
            shelf=self.runtime.shelf,
            settings=self.settings,
            registry=self.registry,
            hooks=self.hooks,
            clock=self.clock,
            random=Random(),
        )

    # Submission.

    async def enqueue_call(self, call: Call) -> Handle:
        """Submits one task, given as a call."""
        if self.hooks.middleware:
            return await self.submit_with_hooks(self.drafter.completed(call))
        submitted = await self.local.batcher.submit(self.drafter.draft(call))
        return Handle(submitted.id, submitted.created, self)

    async def enqueue_document(
        self, document: Mapping[str, Any] | str | bytes, form: Form | None
    ) -> Handle:
        """Submits one task, given as a document."""
        if self.hooks.middleware:
            return await self.submit_with_hooks(self.drafter.call_of_document(document, form))
        submitted = await self.local.batcher.submit(self.drafter.of_document(document, form))
        return Handle(submitted.id, submitted.created, self)

    async def enqueue_many(
        self, calls: Iterable[Call | Mapping[str, Any]], *, wait_replicas: int | None = None
    ) -> list[Handle]:
        """Submits many tasks in few calls and returns their handles in order. All tasks are
        validated before the first is sent. If the server refuses some, the others are submitted and
        the first refusal is raised.
        """
        if self.hooks.middleware:
            changed = [await self.hooks.before_submit(self.drafter.call(call)) for call in calls]
            drafts = [self.drafter.of_call(call) for call in changed]
        else:
            drafts = [self.drafter.draft(call) for call in calls]
        handles: list[Handle] = []
        refused: list[RQueueError] = []
        earlier, replicas = self.runtime.earlier, wait_replicas
        for answer in await submit_new(self.shard, earlier, drafts, replicas=replicas):
            if isinstance(answer, RQueueError):
                refused.append(answer)
            else:
                handles.append(Handle(answer.id, answer.created, self))
        if handles and self.hooks.middleware:
            await self.hooks.after_submit(handles)
        if refused:
            raise refused[0]
        return handles

    async def submit_with_hooks(self, call: Call) -> Handle:
        """Submits one task and runs the middleware before and after it."""
        draft = self.drafter.of_call(await self.hooks.before_submit(call))
        submitted = await self.local.batcher.submit(draft)
        handle = Handle(submitted.id, submitted.created, self)
        await self.hooks.after_submit([handle])
        return handle

    # Called by handles.

    async def get(self, task: str) -> Task:
        """Returns a task from Redis or the archive, with its result."""
        from rqueue.worker.context.inputs import shown  # noqa: PLC0415

        return await shown(self.runtime.shelf, await self.operations.get(task))

    async def state(self, task: str) -> State:
        """Returns the state of a task without reading its result."""
        return (await self.operations.get(task)).state

    async def view(self, task: str, form: Form | None = None) -> dict[str, Any]:
        """Returns a task as a document of a form, by default that of the profile."""
        from rqueue.task.forms import view  # noqa: PLC0415

        return view(await self.get(task), form or self.settings.preset.view)

    async def cancel(self, task: str, reason: str = "") -> bool:
        """Cancels a task and its dependents; returns False if it has ended or does not exist."""
        return await self.operations.cancel(task, reason=reason, dependents="cascade")

    async def ended(self, task: TaskId | DagId) -> None:
        """Waits until a task has ended, or a DAG has ended or failed. Does not poll."""
        await self.local.result_waiter.ended(task if isinstance(task, DagId) else task.ulid)
