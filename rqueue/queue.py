"""The public queue: what producers, hand-workers and operators call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakKeyDictionary

from rqueue.client.claimer import HandClaim
from rqueue.client.counts import Counts, counts_of
from rqueue.client.desk import Desk, Swept, filter_of
from rqueue.client.drafts import Call, Drafter
from rqueue.client.gatherer import Gatherer
from rqueue.client.handle import Handle
from rqueue.client.lease import Lease
from rqueue.client.settler import Settler
from rqueue.client.watcher import Watcher
from rqueue.clock import SYSTEM, Clock
from rqueue.errors import InvalidTask, RQueueError
from rqueue.model.checked import LABEL, LABEL_RULE
from rqueue.model.forms import view
from rqueue.model.state import State
from rqueue.policy.capability import Offer
from rqueue.runtime import Runtime, open_runtime
from rqueue.settings import Settings
from rqueue.store import queue as whole
from rqueue.store import tasks
from rqueue.store.submits import submit
from rqueue.sync import Blocking

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.forms import Form
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task

MAX_CLAIM = 500


class Queue:
    """One queue on one server.

    Nothing is sent before the first call. The same object may be used from several event loops
    and threads, and after a fork.
    """

    def __init__(self, name: str, *, runtime: Runtime | None = None, **settings: Any) -> None:
        self.runtime = runtime or open_runtime(Settings.load(name, **settings))
        self.settings = self.runtime.settings
        self.name = name
        self.clock: Clock = SYSTEM
        self.drafter = Drafter(self.settings, self.clock)
        self.shard = self.runtime.shard
        self.desk = Desk(self.shard, self.runtime.reader, self.settings)
        self.settler = Settler(self.shard, self.settings, self.clock, Random())
        self.locals: WeakKeyDictionary[asyncio.AbstractEventLoop, Local] = WeakKeyDictionary()
        self.sync = Blocking(self)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes this event loop's connections; a later call opens them again."""
        local = self.locals.pop(asyncio.get_running_loop(), None)
        if local is not None:
            await local.aclose()
        await self.runtime.aclose()

    @property
    def local(self) -> Local:
        """What belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        found = self.locals.get(loop)
        if found is None:
            found = self.locals[loop] = Local(self)
        return found

    # The producer.

    async def enqueue(
        self,
        type: str,
        payload: object = None,
        *,
        wait_replicas: int | None = None,
        **options: Any,
    ) -> Handle:
        """Takes one task; options are the model's own field names. Raises InvalidTask and the
        other SubmitErrors, and then nothing was written. With `wait_replicas`, returns after so
        many replicas have it, and raises StoreUnavailable when they do not in time.
        """
        call = Call(type, payload, options)
        if wait_replicas is not None:
            (handle,) = await self.enqueue_many([call], wait_replicas=wait_replicas)
            return handle
        taken = await self.local.gatherer.submit(self.drafter.draft(call))
        return Handle(taken.id, taken.created, self)

    async def enqueue_document(
        self, document: Mapping[str, Any] | str | bytes, *, form: Form | None = None
    ) -> Handle:
        """Takes a task written as one of the documents A, B or C, or natively."""
        taken = await self.local.gatherer.submit(self.drafter.of_document(document, form))
        return Handle(taken.id, taken.created, self)

    async def enqueue_many(
        self, calls: Iterable[Call | Mapping[str, Any]], *, wait_replicas: int | None = None
    ) -> list[Handle]:
        """Takes many tasks in few calls, in this order. All are checked before any is sent;
        raises the first refusal of the server, after the others were taken.
        """
        drafts = [self.drafter.draft(call) for call in calls]
        handles: list[Handle] = []
        for answer in await submit(self.shard, drafts, replicas=wait_replicas):
            if isinstance(answer, RQueueError):
                raise answer
            handles.append(Handle(answer.id, answer.created, self))
        return handles

    def call(self, type: str, payload: object = None, **options: Any) -> Call:
        """A task to be given to `enqueue_many`."""
        return Call(type, payload, options)

    async def get(self, task: str) -> Task:
        """A task by its id in any form, or by the caller's own id; raises TaskNotFound."""
        return await self.desk.get(task)

    async def view(self, task: str, form: Form | None = None) -> dict[str, Any]:
        """A task as one of the documents A, B or C shows it; by default as the profile says."""
        return view(await self.get(task), form or self.settings.preset.view)

    async def ended(self, task: TaskId) -> None:
        """Returns when a task has ended; woken, not polled."""
        await self.local.watcher.ended(task.ulid)

    # The worker's side by hand.

    async def claim(
        self,
        *,
        worker: str,
        types: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        agents: Iterable[str] = (),
        n: int = 1,
        wait: float = 0,
    ) -> list[Lease]:
        """Leases of up to `n` of the best tasks that this offer may serve; without any, those
        that come within `wait` seconds. No types means every type.
        """
        if LABEL.fullmatch(worker) is None:
            raise InvalidTask("worker", LABEL_RULE)
        if not 1 <= n <= MAX_CLAIM:
            raise InvalidTask("n", f"is from 1 to {MAX_CLAIM}")
        offer = Offer.of(types, capabilities, agents)
        grants = await HandClaim(self.shard, worker, offer).claim(n, wait)
        return [Lease(grant, worker, self.settler) for grant in grants]

    # The operator.

    async def cancel(
        self,
        task: str,
        reason: str = "",
        *,
        dependents: Literal["cascade", "unblock"] = "cascade",
    ) -> bool:
        """Ends a task that has not ended; whether there was one. What depends on it is cancelled
        too, or unblocked.
        """
        known = await self.desk.id_of(task)
        words = await tasks.cancel(self.shard, [known.ulid], reason=reason, dependents=dependents)
        return words[0] == "OK"

    async def cancel_many(
        self,
        *,
        states: Iterable[State | str] | None = None,
        type: str | None = None,
        tag: str | None = None,
        before: datetime | None = None,
        reason: str = "cancelled in bulk",
        dry_run: bool = False,
    ) -> Swept:
        """Cancels all live tasks that fit; with `dry_run` only says which."""
        wanted = filter_of(states, type, tag, before)
        return await self.desk.sweep(wanted, reason=reason, dry_run=dry_run)

    async def purge(
        self,
        *,
        states: Iterable[State | str] = (State.DEAD_LETTERED,),
        type: str | None = None,
        tag: str | None = None,
        before: datetime | None = None,
        reason: str = "purged",
        dry_run: bool = False,
    ) -> Swept:
        """Discards dead tasks, and cancels live ones of the named states, that fit."""
        wanted = filter_of(states, type, tag, before)
        return await self.desk.sweep(wanted, reason=reason, dry_run=dry_run)

    async def find(
        self,
        *,
        states: Iterable[State | str] | None = None,
        type: str | None = None,
        tag: str | None = None,
        before: datetime | None = None,
    ) -> AsyncIterator[Task]:
        """The live (and, where named, dead) tasks that fit, read as they are walked."""
        async for task in self.desk.find(filter_of(states, type, tag, before)):
            yield task

    async def set_priority(self, task: str, priority: float, *, scale: str | None = None) -> None:
        """Gives a task another base priority; its age still counts."""
        await self.desk.set_priority(task, priority, scale)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | None = None
    ) -> None:
        """Lets a waiting task wait until another time."""
        await self.desk.reschedule(task, delay=delay, at=at)

    async def run_now(self, task: str) -> bool:
        """Ends a task's waiting for its time; whether it was waiting for one."""
        return await tasks.run_now(self.shard, await self.desk.id_of(task))

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that nobody has claimed yet."""
        await self.desk.edit(task, payload)

    async def revive(self, task: str, *, payload: object = None, delay: float = 0) -> State:
        """Gives a dead task a new life, changed where a payload is given."""
        return await self.desk.revive(task, payload=payload, delay=delay)

    async def discard(self, task: str, reason: str = "") -> None:
        """Gives a dead task up."""
        await self.desk.discard(task, reason)

    async def pause(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Hands out nothing of the queue, a type or a lane until it is resumed."""
        await whole.pause(self.shard, whole.gate(type, lane))

    async def resume(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Ends a pause; who waited is answered at once."""
        await whole.resume(self.shard, whole.gate(type, lane))

    async def counts(self) -> Counts:
        """How many tasks there are by state, type and tier; the work grows with the lanes only."""
        return counts_of(await whole.tally(self.shard))


class Local:
    """What of a queue belongs to one event loop."""

    def __init__(self, queue: Queue) -> None:
        self.gatherer = Gatherer(queue.shard)
        self.watcher = Watcher(queue.shard)

    async def aclose(self) -> None:
        """Ends what runs in the background."""
        if self.watcher.listener is not None:
            self.watcher.listener.cancel()
            await asyncio.gather(self.watcher.listener, return_exceptions=True)


__all__: Sequence[str] = ["Queue"]
