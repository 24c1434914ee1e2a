"""The public queue: what producers, hand-workers and operators call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from weakref import WeakKeyDictionary

from rqueue.client import door
from rqueue.client.claimer import HandClaim
from rqueue.client.desk import Desk
from rqueue.client.drafts import Drafter
from rqueue.client.earlier import submit_new
from rqueue.client.handle import Handle
from rqueue.client.lease import Lease, handed_out, taken_up
from rqueue.client.local import Local
from rqueue.client.planner import Planner
from rqueue.client.settler import Settler
from rqueue.clock import SYSTEM, Clock
from rqueue.control import Control
from rqueue.errors import RQueueError
from rqueue.function import Decorator, decorator
from rqueue.hooks import Hooks, J, Lifespan, Middleware, Resource
from rqueue.lookup import Lookup
from rqueue.model.call import Call
from rqueue.model.ids import DagId
from rqueue.registry import Ack, Kind, Registry
from rqueue.reviewing import Reviewing
from rqueue.runtime import Runtime, open_runtime
from rqueue.services.desk import Parts
from rqueue.services.naming import worker_name
from rqueue.services.roster import Place, roster
from rqueue.services.scheduler import Scheduler, owner_of
from rqueue.services.seats import Seats
from rqueue.services.worker import MOST_SLOTS, Worker
from rqueue.settings import Settings
from rqueue.sync import Blocking

if TYPE_CHECKING:
    from rqueue.model.forms import Form
    from rqueue.model.ids import TaskId

L = TypeVar("L", bound=Lifespan | Resource)

MAX_CLAIM = 500


class Queue(Lookup, Control, Reviewing, Planner):
    """One queue on one server.

    Nothing is sent before the first call. The same object may be used from several event loops
    and threads, and after a fork.
    """

    def __init__(self, name: str, *, runtime: Runtime | None = None, **settings: Any) -> None:
        self.given = settings
        self.runtime = runtime or open_runtime(Settings.load(name, **settings))
        self.settings = self.runtime.settings
        self.name = name
        self.clock: Clock = SYSTEM
        self.shard = self.runtime.shard
        self.desk = Desk(self.shard, self.runtime.reader, self.settings, self.runtime.past)
        reader, shelf = self.runtime.reader, self.runtime.shelf
        self.settler = Settler(self.shard, reader, self.settings, self.clock, shelf=shelf)
        self.locals: WeakKeyDictionary[asyncio.AbstractEventLoop, Local] = WeakKeyDictionary()
        self.registry = Registry()
        handlers, by = self.registry.handlers, self.settings.principal
        self.drafter = Drafter(self.settings, self.clock, handlers, by=by)
        self.hooks = Hooks()
        self.sync = Blocking(self)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes this event loop's connections; a later call opens them again. Who still waits for
        a result gets StoreUnavailable; the task goes on.
        """
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
            found = self.locals[loop] = Local(self.shard, self.runtime.earlier)
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
        """Takes one task; options are the model's own field names, and where they say nothing
        those of the type's handler hold, if it is registered here. Raises InvalidTask and the
        other SubmitErrors, and then nothing was written. With `wait_replicas`, returns after so
        many replicas have it, and raises StoreUnavailable when they do not in time.
        """
        call = Call(type, payload, options)
        if wait_replicas is not None:
            (handle,) = await self.enqueue_many([call], wait_replicas=wait_replicas)
            return handle
        return await self.enqueue_call(call)

    async def enqueue_document(
        self, document: Mapping[str, Any] | str | bytes, *, form: Form | None = None
    ) -> Handle:
        """Takes a task written as one of the documents A, B or C, or natively: as it is written,
        without the options of its type's handler.
        """
        if self.hooks.middleware:
            return await self.passed(self.drafter.call_of_document(document, form))
        taken = await self.local.gatherer.submit(self.drafter.of_document(document, form))
        return Handle(taken.id, taken.created, self)

    async def enqueue_many(
        self, calls: Iterable[Call | Mapping[str, Any]], *, wait_replicas: int | None = None
    ) -> list[Handle]:
        """Takes many tasks in few calls, in this order. All are checked before any is sent;
        raises the first refusal of the server, after the others were taken.
        """
        if self.hooks.middleware:
            whole = [await self.hooks.before_submit(self.drafter.call(call)) for call in calls]
            drafts = [self.drafter.of_call(call) for call in whole]
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

    async def enqueue_call(self, call: Call) -> Handle:
        """Takes one task that was written as a call."""
        if self.hooks.middleware:
            return await self.passed(self.drafter.completed(call))
        taken = await self.local.gatherer.submit(self.drafter.draft(call))
        return Handle(taken.id, taken.created, self)

    async def passed(self, call: Call) -> Handle:
        """Takes one task, with the middleware's steps around it."""
        draft = self.drafter.of_call(await self.hooks.before_submit(call))
        taken = await self.local.gatherer.submit(draft)
        handle = Handle(taken.id, taken.created, self)
        await self.hooks.after_submit([handle])
        return handle

    def task(
        self,
        type: str,
        *,
        kind: Kind | None = None,
        ack: Ack = "after",
        **options: Any,
    ) -> Decorator:
        """Makes a function the handler of a type; options are those of its tasks, also where they
        are enqueued by the type's name.

        Coroutines run on the worker's event loop, plain functions in a thread, both in a process
        of their own with `kind="process"`, which can be killed. `ack="before"`
        completes a task before it runs: at most once instead of at least, and without a result.
        """
        return decorator(self, type, options, kind=kind, ack=ack)

    def use(self, *middleware: Middleware) -> None:
        """Hangs steps around every submit through this object and every attempt of its workers.
        The first that is given is the outermost.
        """
        self.hooks.use(*middleware)

    def lifespan(self, opened: L) -> L:
        """Decorates what each worker of this object opens when it starts and closes when it ends:
        an async generator with one `yield`, or an async context manager. It is given the
        worker's `state`, which handlers find as `ctx.state`.
        """
        self.hooks.open_with(opened)
        return opened

    def judge(self, judge: J) -> J:
        """Decorates what judges outputs for the validator `llm-judge`: an async function of the
        context, the output and the task's criteria, which gives True or False, or a pair of that
        and the reason.
        """
        self.hooks.judge_by(judge)
        return judge

    def call(self, type: str, payload: object = None, **options: Any) -> Call:
        """A task to be given to `enqueue_many`."""
        return Call(type, payload, options)

    async def ended(self, task: TaskId | DagId) -> None:
        """Returns when a task has ended, or a DAG has ended or failed; woken, not polled."""
        await self.local.watcher.ended(task if isinstance(task, DagId) else task.ulid)

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
        that come within `wait` seconds. No types means every type. Their payloads have what they
        are given of other tasks; one for which that is not there fails and is not among them.
        """
        name = door.label_of("worker", worker)
        number, wait_sec = door.number_of("n", n, most=MAX_CLAIM), door.seconds_of("wait", wait)
        offer = door.offer_of(types, capabilities, agents)
        claim = HandClaim(self.shard, name, offer)
        return await handed_out(claim, number, wait_sec, settler=self.settler)

    async def lease(self, task: str, token: str, *, worker: str | None = None) -> Lease:
        """The lease of who has its token, held or not: each of its calls finds out."""
        shown = door.label_of("token", token)
        return taken_up(await self.get(task), shown, worker, self.settler)

    def worker(
        self,
        *,
        concurrency: int = 10,
        name: str | None = None,
        seats: Seats | None = None,
        **offered: Unpack[door.Offered],
    ) -> Worker:
        """A worker for this queue's handlers, `concurrency` tasks at once, or as many as there are
        `seats`, which it may share; `run` it. It offers `types`, by default all of its handlers,
        `capabilities`, `agents`, and `models`, by default any.
        """
        parts = Parts(
            shard=self.shard,
            reader=self.runtime.reader,
            shelf=self.runtime.shelf,
            settings=self.settings,
            registry=self.registry,
            hooks=self.hooks,
            clock=self.clock,
            random=Random(),
        )
        offer = door.worker_offer(offered, self.registry.handlers)
        shown = worker_name() if name is None else door.label_of("worker", name)
        size = door.number_of("concurrency", concurrency, most=MOST_SLOTS)
        return Worker(parts, offer, name=shown, seats=seats or Seats(size))

    def scheduler(self, name: str | None = None) -> Scheduler:
        """A candidate for the leadership of this queue's services: promoter, reaper, inbox ..."""
        name = worker_name() if name is None else door.label_of("scheduler", name)
        return Scheduler(
            self.shard,
            roster(self.place, name),
            owner=owner_of(name, self.settings),
            clock=self.clock,
            random=Random(),
        )

    @property
    def place(self) -> Place:
        """What the services of the queue work with."""
        runtime = self.runtime
        return Place(
            self.shard,
            runtime.reader,
            self.settings,
            runtime.archive,
            self.clock,
            Random(),
            runtime.earlier,
        )


__all__: Sequence[str] = ["Queue"]
