"""The public queue: what producers, workers by hand and operators call.

What a call needs of a room is imported at the call: a producer pays for its own part alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from rqueue.core import counts as counting
from rqueue.core import tasks
from rqueue.core.counts import Counts, counts_of
from rqueue.handlers import Decorator, decorator
from rqueue.internals import Internals
from rqueue.middleware import J, Lifespan, Middleware, Resource
from rqueue.producer import arguments
from rqueue.producer.handle import Handle
from rqueue.runtime import Runtime, open_runtime
from rqueue.settings.load import Settings
from rqueue.sync import Blocking
from rqueue.task.dag import DagSpec
from rqueue.task.spec import Call
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.admin import QueueArchive
    from rqueue.artifacts.admin import QueueArtifacts
    from rqueue.budgets.admin import QueueBudgets
    from rqueue.core.events import Event
    from rqueue.dags.admin import Dags
    from rqueue.dags.builder import DagBuilder
    from rqueue.dags.plan import Plan
    from rqueue.dead.admin import DeadTasks
    from rqueue.explain.explain import Explanation
    from rqueue.explain.why import Why
    from rqueue.fleet.admin import Fleet
    from rqueue.fleet.roles import Roles
    from rqueue.limits.admin import Limits
    from rqueue.notices.admin import Notices
    from rqueue.operations import Swept
    from rqueue.process.scheduler import Scheduler
    from rqueue.task.forms import Form
    from rqueue.task.task import Task
    from rqueue.worker.handler import Ack, Kind
    from rqueue.worker.manual import Lease
    from rqueue.worker.shared_slots import SharedSlots
    from rqueue.worker.worker import Worker

L = TypeVar("L", bound=Lifespan | Resource)

MAX_CLAIM = 500


class Queue:
    """One queue on one server.

    Nothing is sent before the first call. The same object may be used from several event loops
    and threads, and after a fork.
    """

    def __init__(self, name: str, *, runtime: Runtime | None = None, **settings: Any) -> None:
        runtime = runtime or open_runtime(Settings.load(name, **settings))
        self.name = name
        self.settings = runtime.settings
        self.sync = Blocking(self)
        self._internals = Internals(name, runtime, settings)

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
        await self._internals.aclose()

    # Handlers.

    def task(
        self, type: str, *, kind: Kind | None = None, ack: Ack = "after", **options: Any
    ) -> Decorator:
        """Makes a function the handler of a type; options are those of its tasks, also where they
        are enqueued by the type's name.

        Coroutines run on the worker's event loop, plain functions in a thread, both in a process
        of their own with `kind="process"`, which can be killed. `ack="before"`
        completes a task before it runs: at most once instead of at least, and without a result.
        """
        return decorator(self._internals, type, options, kind=kind, ack=ack)

    def use(self, *middleware: Middleware) -> None:
        """Hangs steps around every submit through this object and every attempt of its workers.
        The first that is given is the outermost.
        """
        self._internals.hooks.use(*middleware)

    def lifespan(self, opened: L) -> L:
        """Decorates what each worker of this object opens when it starts and closes when it ends:
        an async generator with one `yield`, or an async context manager. It is given the
        worker's `state`, which handlers find as `ctx.state`.
        """
        self._internals.hooks.add_lifespan(opened)
        return opened

    def judge(self, judge: J) -> J:
        """Decorates what judges outputs for the validator `llm-judge`: an async function of the
        context, the output and the task's criteria, which gives True or False, or a pair of that
        and the reason.
        """
        self._internals.hooks.set_judge(judge)
        return judge

    # The producer.

    def call(self, type: str, payload: object = None, **options: Any) -> Call:
        """A task to be given to `enqueue_many`."""
        return Call(type, payload, options)

    async def enqueue(
        self, type: str, payload: object = None, *, wait_replicas: int | None = None, **options: Any
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
        return await self._internals.enqueue_call(call)

    async def enqueue_many(
        self, calls: Iterable[Call | Mapping[str, Any]], *, wait_replicas: int | None = None
    ) -> list[Handle]:
        """Takes many tasks in few calls, in this order. All are checked before any is sent;
        raises the first refusal of the server, after the others were taken.
        """
        return await self._internals.enqueue_many(calls, wait_replicas=wait_replicas)

    async def enqueue_document(
        self, document: Mapping[str, Any] | str | bytes, *, form: Form | None = None
    ) -> Handle:
        """Takes a task written as one of the documents A, B or C, or natively: as it is written,
        without the options of its type's handler.
        """
        return await self._internals.enqueue_document(document, form)

    def dag(
        self,
        title: str | None = None,
        *,
        on_complete: Plan | DagBuilder | None = None,
        **options: Any,
    ) -> DagBuilder:
        """A DAG to be built in an `async with` block, at whose end it is submitted. Options are
        `created_by`, `on_failure`, `failure_threshold`, `budget_usd` and `spawn`; `on_complete` is
        another DAG that is submitted when this one has completed, once. Raises InvalidTask.
        """
        from rqueue.dags.builder import DagBuilder  # noqa: PLC0415

        spec = DagSpec.parse({"title": title, **options})
        return DagBuilder(spec, self._internals, on_complete=on_complete)

    # Looking at tasks.

    async def get(self, task: str) -> Task:
        """A task by its id in any form, or by the caller's own id, from Redis or the archive.
        Raises TaskNotFound, and StoreUnavailable where one of them cannot say. One whose result is
        an artifact that is gone comes without it, and says so (`result_missing`).
        """
        return await self._internals.get(task)

    async def handle(self, task: str) -> Handle:
        """The handle of a task that is there, as `enqueue` gave it; raises what `get` raises."""
        found = await self._internals.operations.get(task)
        return Handle(found.id, False, self._internals)

    async def find(
        self,
        *,
        states: Iterable[State | str] | None = None,
        type: str | None = None,
        tag: str | None = None,
        before: datetime | str | None = None,
    ) -> AsyncIterator[Task]:
        """The live (and, where named, dead) tasks that fit, read as they are walked."""
        from rqueue.operations import filter_of  # noqa: PLC0415

        async for task in self._internals.operations.find(filter_of(states, type, tag, before)):
            yield task

    async def counts(self) -> Counts:
        """How many tasks there are by state, type and tier; the work grows with the lanes only."""
        return counts_of(await counting.tally(self._internals.shard))

    async def why(self, task: str) -> Why:
        """What holds a task back that does not run yet, as a claim would find it now, and when it
        may begin at the earliest; raises TaskNotFound, and WrongState for one that has ended.
        """
        from rqueue.explain.why import why  # noqa: PLC0415

        return await why(self._internals.operations, task)

    async def explain(self, task: str) -> Explanation:
        """What a task's effective priority is made of, and who comes before it. Raises
        TaskNotFound, and WrongState where it has ended.
        """
        from rqueue.explain.explain import explain  # noqa: PLC0415

        return await explain(self._internals.operations, task)

    async def events(
        self,
        after: str | None = None,
        *,
        names: Iterable[str] = (),
        task: str | None = None,
        wait: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """What happened, oldest first, and then what happens: after the event of an id, after now
        with "$", else all that is kept. `names` may be patterns (`task.*`). It ends when nothing
        has come for `wait` seconds, and never without; a server that is away is waited for.
        Reading takes nothing away. Raises EventsMissed where events after `after` are gone.
        """
        from rqueue.core.events import Follower, event_filter_of, place_of  # noqa: PLC0415

        wait_sec = None if wait is None else arguments.seconds_of("wait", wait)
        known = None if task is None else await self._internals.operations.id_of(task)
        wanted = event_filter_of(names, known)
        follower = Follower(self._internals.shard, place_of(after), wanted, wait_sec=wait_sec)
        async for event in follower.events():
            yield event

    # Changing tasks.

    async def cancel(
        self,
        task: str,
        reason: str = "",
        *,
        dependents: Literal["cascade", "unblock"] = "cascade",
    ) -> bool:
        """Ends a task that has not ended; whether there was one. What depends on it, and what it
        has spawned and waits for, is cancelled too; with "unblock" both go on.
        """
        operations = self._internals.operations
        return await operations.cancel(task, reason=reason, dependents=dependents)

    async def set_priority(self, task: str, priority: float, *, scale: str | None = None) -> None:
        """Gives a task another base priority; its age still counts."""
        await self._internals.operations.set_priority(task, priority, scale)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | str | None = None
    ) -> None:
        """Lets a waiting task wait until another time."""
        await self._internals.operations.reschedule(task, delay=delay, at=at)

    async def run_now(self, task: str) -> bool:
        """Ends a task's waiting for its time; whether it was waiting for one."""
        known = await self._internals.operations.id_of(task)
        return await tasks.run_now(self._internals.shard, known)

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that nobody has claimed yet."""
        await self._internals.operations.edit(task, payload)

    async def purge(
        self,
        *,
        states: Iterable[State | str] | None = (State.DEAD_LETTERED,),
        type: str | None = None,
        tag: str | None = None,
        before: datetime | str | None = None,
        reason: str = "purged",
        dry_run: bool = False,
    ) -> Swept:
        """Discards dead tasks that fit, and cancels live ones of the named states, all of them with
        `states=None`; with `dry_run` only says which.
        """
        from rqueue.operations import filter_of  # noqa: PLC0415

        wanted = filter_of(states, type, tag, before)
        return await self._internals.operations.sweep(wanted, reason=reason, dry_run=dry_run)

    async def pause(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Hands out nothing of the queue, a type or a lane until it is resumed."""
        await counting.pause(self._internals.shard, arguments.pause_scope_of(type, lane))

    async def resume(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Ends a pause; who waited is answered at once."""
        await counting.resume(self._internals.shard, arguments.pause_scope_of(type, lane))

    # The worker's side.

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
        from rqueue.worker.manual import ManualClaim, claim_leases  # noqa: PLC0415

        name = arguments.label_of("worker", worker)
        number, wait_sec = (
            arguments.number_of("n", n, most=MAX_CLAIM),
            arguments.seconds_of("wait", wait),
        )
        offer = arguments.offer_of(types, capabilities, agents)
        claim = ManualClaim(self._internals.shard, name, offer)
        return await claim_leases(claim, number, wait_sec, settler=self._internals.settler)

    async def lease(self, task: str, token: str, *, worker: str | None = None) -> Lease:
        """The lease of who has its token, held or not: each of its calls finds out."""
        from rqueue.worker.manual import lease_of  # noqa: PLC0415

        shown = arguments.label_of("token", token)
        return lease_of(await self.get(task), shown, worker, self._internals.settler)

    def worker(
        self,
        *,
        concurrency: int = 10,
        name: str | None = None,
        shared_slots: SharedSlots | None = None,
        **offered: Unpack[arguments.Offered],
    ) -> Worker:
        """A worker for this queue's handlers; call its `run`. It runs `concurrency` tasks at once,
        or as many as the `shared_slots`, which workers of one process may share. It offers `types`,
        by default all of its handlers, `capabilities`, `agents` and `models`, by default any.
        """
        from rqueue.worker.shared_slots import SharedSlots  # noqa: PLC0415
        from rqueue.worker.stats import worker_name  # noqa: PLC0415
        from rqueue.worker.worker import MOST_SLOTS, Worker  # noqa: PLC0415

        offer = arguments.worker_offer(offered, self._internals.registry.handlers)
        shown = worker_name() if name is None else arguments.label_of("worker", name)
        size = arguments.number_of("concurrency", concurrency, most=MOST_SLOTS)
        return Worker(
            self._internals.parts, offer, name=shown, shared_slots=shared_slots or SharedSlots(size)
        )

    def scheduler(self, name: str | None = None) -> Scheduler:
        """A candidate for the leadership of this queue's services: promoter, reaper, inbox ..."""
        from rqueue.process.scheduler import Scheduler, owner_of  # noqa: PLC0415
        from rqueue.services import scheduler_services  # noqa: PLC0415
        from rqueue.worker.stats import worker_name  # noqa: PLC0415

        name = worker_name() if name is None else arguments.label_of("scheduler", name)
        internals = self._internals
        return Scheduler(
            internals.shard,
            scheduler_services(internals.service_parts, name),
            owner=owner_of(name, self.settings),
            clock=internals.clock,
            random=Random(),
        )

    # The rest, by capability.

    @property
    def dags(self) -> Dags:
        """Submits, shows and changes whole DAGs."""
        from rqueue.dags.admin import Dags  # noqa: PLC0415

        return Dags(self._internals, self._internals.operations, self._internals.dead)

    @property
    def dead(self) -> DeadTasks:
        """Shows dead tasks, and decides about them."""
        from rqueue.dead.admin import DeadTasks  # noqa: PLC0415

        return DeadTasks(self._internals.dead)

    @property
    def limits(self) -> Limits:
        """Shows and changes breakers and slow-downs."""
        from rqueue.limits.admin import Limits  # noqa: PLC0415

        return Limits(self._internals.shard)

    @property
    def budgets(self) -> QueueBudgets:
        """Shows and sets what the day, or a worker, may cost."""
        from rqueue.budgets.admin import QueueBudgets  # noqa: PLC0415

        return QueueBudgets(self._internals.shard)

    @property
    def fleet(self) -> Fleet:
        """Shows and drains workers."""
        from rqueue.fleet.admin import Fleet  # noqa: PLC0415

        return Fleet(self._internals.shard)

    @property
    def roles(self) -> Roles:
        """Shows and sets the roles of principals."""
        from rqueue.fleet.roles import Roles  # noqa: PLC0415

        return Roles(self._internals.shard, by=self.settings.principal)

    @property
    def notices(self) -> Notices:
        """Shows who is told of events."""
        from rqueue.notices.admin import Notices  # noqa: PLC0415

        return Notices(self._internals.shard)

    @property
    def archive(self) -> QueueArchive:
        """Reads and maintains the archive of what has ended."""
        from rqueue.archive.admin import QueueArchive  # noqa: PLC0415

        runtime, clock = self._internals.runtime, self._internals.clock
        operations = self._internals.operations
        return QueueArchive(operations, runtime.archive, clock, earlier=runtime.earlier)

    @property
    def artifacts(self) -> QueueArtifacts:
        """Puts and reads files and other large things, see docs/guides/artifacts.md."""
        from rqueue.artifacts.admin import QueueArtifacts  # noqa: PLC0415

        internals = self._internals
        return QueueArtifacts(internals.operations, internals.runtime.shelf, internals.clock)
