"""The public queue: enqueues, reads and changes tasks, claims them by hand, and makes workers.

Parts that only some calls need are imported in those calls, so that a producer loads little.
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
    from rqueue.budgets.accounts import QueueBudgets
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
    from rqueue.notices.store import Notices
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
    """One queue on one server; connects at the first call.

    Keyword arguments are settings (docs/settings.md). Missing ones come from the environment,
    rqueue.yaml and the profile; a wrong one raises ConfigError. Several event loops and threads may
    use one object, also after a fork. `sync` has every method as a blocking call.
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
        """Closes the connections of the running event loop; a later call opens new ones. Callers
        that still wait for a result get StoreUnavailable; their tasks are not affected.
        """
        await self._internals.aclose()

    # Handlers.

    def task(
        self, type: str, *, kind: Kind | None = None, ack: Ack = "after", **options: Any
    ) -> Decorator:
        """Registers the decorated function as the handler of a type and returns a TaskFunction.

        `options` are fields of the task model and the defaults of all tasks of the type that this
        object enqueues. Coroutine functions run on the worker's event loop, plain functions in a
        thread; with `kind="process"` both run in a subprocess, which can be killed. With
        `ack="before"` a task is completed before its handler runs: it runs at most once instead of
        at least once, and has no result. Raises InvalidTask for a wrong option, ConfigError for an
        unusable type or function.
        """
        return decorator(self._internals, type, options, kind=kind, ack=ack)

    def use(self, *middleware: Middleware) -> None:
        """Adds middleware around every submit by this object and every attempt of its workers. The
        first one is the outermost. Raises ConfigError for any other object.
        """
        self._internals.hooks.use(*middleware)

    def lifespan(self, opened: L) -> L:
        """Registers the decorated function to run when a worker of this object starts and ends.

        It is an async generator function with one `yield`, or returns an async context manager. Its
        argument is the worker's `state`, which handlers read as `ctx.state`. Raises ConfigError for
        a coroutine function.
        """
        self._internals.hooks.add_lifespan(opened)
        return opened

    def judge(self, judge: J) -> J:
        """Registers the decorated function as the judge of the validator `llm-judge`.

        It is an async function of the context, the output and the task's criteria, and returns
        True, False, or a pair of one of them and the reason. Raises ConfigError for a second judge.
        """
        self._internals.hooks.set_judge(judge)
        return judge

    # Submission.

    def call(self, type: str, payload: object = None, **options: Any) -> Call:
        """Returns a call for `enqueue_many` or a DAG; it is checked when it is submitted."""
        return Call(type, payload, options)

    async def enqueue(
        self, type: str, payload: object = None, *, wait_replicas: int | None = None, **options: Any
    ) -> Handle:
        """Enqueues one task and returns its handle.

        Options are field names of the task model; missing ones come from the registered handler of
        the type. If an equal task exists (`idempotency_key`, `dedupe`), returns its handle, with
        `created` False. With `wait_replicas`, returns when that many replicas have the task.

        Raises InvalidTask, InvalidGraph for a missing dependency, or another SubmitError; nothing
        was written then. Raises StoreUnavailable if the server or the replicas do not answer in
        time; the task may have been enqueued.
        """
        call = Call(type, payload, options)
        if wait_replicas is not None:
            (handle,) = await self.enqueue_many([call], wait_replicas=wait_replicas)
            return handle
        return await self._internals.enqueue_call(call)

    async def enqueue_many(
        self, calls: Iterable[Call | Mapping[str, Any]], *, wait_replicas: int | None = None
    ) -> list[Handle]:
        """Enqueues many tasks with few calls to the server; returns their handles in this order.

        All tasks are checked before the first is sent. If the server refuses some, the others are
        enqueued and the first refusal is raised. Raises the errors of `enqueue`.
        """
        return await self._internals.enqueue_many(calls, wait_replicas=wait_replicas)

    async def enqueue_document(
        self, document: Mapping[str, Any] | str | bytes, *, form: Form | None = None
    ) -> Handle:
        """Enqueues a task that is given as a mapping or JSON or YAML text in form A, B, C or
        native.

        Without `form`, the fields decide. The options of the type's handler do not apply. Raises
        the errors of `enqueue`.
        """
        return await self._internals.enqueue_document(document, form)

    def dag(
        self,
        title: str | None = None,
        *,
        on_complete: Plan | DagBuilder | None = None,
        **options: Any,
    ) -> DagBuilder:
        """Returns a DAG builder. As `async with` block it submits all tasks or none at the end.

        Options are `created_by`, `on_failure`, `failure_threshold`, `budget_usd` and `spawn`.
        `on_complete` is a DAG that is submitted once, after this one has completed. Raises
        InvalidTask for a wrong option.
        """
        from rqueue.dags.builder import DagBuilder  # noqa: PLC0415

        spec = DagSpec.parse({"title": title, **options})
        return DagBuilder(spec, self._internals, on_complete=on_complete)

    # Reading.

    async def get(self, task: str) -> Task:
        """Returns a task from Redis or the archive, by its id in any form or its external id.

        Raises TaskNotFound if neither has it, StoreUnavailable if one of them cannot be read. A
        task whose result artifact is missing is returned without result, with `result_missing`
        True.
        """
        return await self._internals.get(task)

    async def handle(self, task: str) -> Handle:
        """Returns the handle of an existing task, as `enqueue` does. Raises the errors of `get`."""
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
        """Yields the tasks that match all given filters, by default all live tasks, in no order.

        `before` is an upper bound of the creation time. Of ended tasks, only dead ones can be
        found. Tasks are read in pages while the caller iterates. Raises InvalidTask for a wrong
        filter.
        """
        from rqueue.operations import filter_of  # noqa: PLC0415

        async for task in self._internals.operations.find(filter_of(states, type, tag, before)):
            yield task

    async def counts(self) -> Counts:
        """Returns the numbers of tasks by state, type and tier. The cost grows with the number of
        lanes, not with the number of tasks.
        """
        return counts_of(await counting.tally(self._internals.shard))

    async def why(self, task: str) -> Why:
        """Returns what keeps a task from running now, and the earliest time at which it may start.
        Raises TaskNotFound, and WrongState if the task has ended.
        """
        from rqueue.explain.why import why  # noqa: PLC0415

        return await why(self._internals.operations, task)

    async def explain(self, task: str) -> Explanation:
        """Returns the terms of a task's effective priority, and how many tasks come before it.
        Raises TaskNotFound, and WrongState if the task has ended.
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
        """Yields the stored events, oldest first, then new ones as they happen. Deletes nothing.

        Starts after the event with the id `after`, or with "$" after now. `names` may be patterns
        such as `task.*`. Ends when no event has come for `wait` seconds; None waits forever. While
        the server is unavailable, reads are retried for as long, then StoreUnavailable is raised.
        Raises EventsMissed if events after `after` were deleted, InvalidTask, TaskNotFound.
        """
        from rqueue.core.events import Follower, event_filter_of, place_of  # noqa: PLC0415

        wait_sec = None if wait is None else arguments.seconds_of("wait", wait)
        known = None if task is None else await self._internals.operations.id_of(task)
        wanted = event_filter_of(names, known)
        follower = Follower(self._internals.shard, place_of(after), wanted, wait_sec=wait_sec)
        async for event in follower.events():
            yield event

    # Changes.

    async def cancel(
        self,
        task: str,
        reason: str = "",
        *,
        dependents: Literal["cascade", "unblock"] = "cascade",
    ) -> bool:
        """Cancels a task that has not ended. Returns False if it has ended or does not exist.

        A worker that runs it loses the lease. Its dependents, and spawned tasks that it waits for,
        are cancelled too; with `dependents="unblock"` both continue.
        """
        operations = self._internals.operations
        return await operations.cancel(task, reason=reason, dependents=dependents)

    async def set_priority(self, task: str, priority: float, *, scale: str | None = None) -> None:
        """Sets the base priority of a task, on `scale` or the queue's scale; its age still counts.
        Raises InvalidTask, TaskNotFound, and WrongState for a completed or cancelled task.
        """
        await self._internals.operations.set_priority(task, priority, scale)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | str | None = None
    ) -> None:
        """Delays a task that is not claimed, by `delay` seconds from now or until `at`. Raises
        InvalidTask unless exactly one is given, TaskNotFound, and WrongState for other tasks.
        """
        await self._internals.operations.reschedule(task, delay=delay, at=at)

    async def run_now(self, task: str) -> bool:
        """Ends the delay of a task; returns False if it has none. A task that waits for
        dependencies still waits for them. Raises TaskNotFound, and WrongState for a leased or ended
        task.
        """
        known = await self._internals.operations.id_of(task)
        return await tasks.run_now(self._internals.shard, known)

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that is not claimed. Raises InvalidTask, TaskNotFound, and
        WrongState for other tasks.
        """
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
        """Discards the dead tasks and cancels the live tasks that match all filters.

        By default all dead tasks match; `states=None` means all live ones. Returns the matches and
        how many were ended; `dry_run` ends none. Raises InvalidTask.
        """
        from rqueue.operations import filter_of  # noqa: PLC0415

        wanted = filter_of(states, type, tag, before)
        return await self._internals.operations.sweep(wanted, reason=reason, dry_run=dry_run)

    async def pause(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Pauses the queue, a type or a lane: none of its tasks is claimed until `resume`. Running
        tasks continue. Raises InvalidTask if both type and lane are given.
        """
        await counting.pause(self._internals.shard, arguments.pause_scope_of(type, lane))

    async def resume(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Ends a pause and answers waiting claims; without a pause it changes nothing."""
        await counting.resume(self._internals.shard, arguments.pause_scope_of(type, lane))

    # Workers and leases.

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
        """Claims up to `n` of the most urgent tasks that fit the offer; returns their leases.

        `types` None offers every type. If no task fits, waits up to `wait` seconds for the next
        ones; the list may be empty. `worker` is the name of the holder. References to outputs and
        artifacts are filled into the payloads; a task that refers to a missing one fails
        permanently and is not returned. Raises InvalidTask for a wrong argument.
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
        """Returns the lease of a task for the holder of its token, such as another process. The
        token is not checked: the calls of the lease raise LeaseLost. Raises the errors of `get`.
        """
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
        """Returns a worker for the handlers of this queue; await its `run`.

        It runs `concurrency` tasks at once, or as many as `shared_slots` allows, which workers of
        one process may share. It offers `types` (default: those with a handler), `capabilities`,
        `agents`, and `models` (default: any). Raises InvalidTask for a wrong argument.
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
        """Returns a scheduler; await its `run`. Of all schedulers of a queue one is the leader and
        runs the services: promoter, reaper, inbox and others.
        """
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

    # Namespaces.

    @property
    def dags(self) -> Dags:
        """Submits, reads and changes whole DAGs."""
        from rqueue.dags.admin import Dags  # noqa: PLC0415

        return Dags(self._internals, self._internals.operations, self._internals.dead)

    @property
    def dead(self) -> DeadTasks:
        """Reads dead tasks, and retries or discards them."""
        from rqueue.dead.admin import DeadTasks  # noqa: PLC0415

        return DeadTasks(self._internals.dead)

    @property
    def limits(self) -> Limits:
        """Reads and changes circuit breakers and slow-downs."""
        from rqueue.limits.admin import Limits  # noqa: PLC0415

        return Limits(self._internals.shard)

    @property
    def budgets(self) -> QueueBudgets:
        """Reads and sets the budgets of the day and of workers."""
        from rqueue.budgets.accounts import QueueBudgets  # noqa: PLC0415

        return QueueBudgets(self._internals.shard)

    @property
    def fleet(self) -> Fleet:
        """Reads and drains workers."""
        from rqueue.fleet.admin import Fleet  # noqa: PLC0415

        return Fleet(self._internals.shard)

    @property
    def roles(self) -> Roles:
        """Reads and sets the roles of principals."""
        from rqueue.fleet.roles import Roles  # noqa: PLC0415

        return Roles(self._internals.shard, by=self.settings.principal)

    @property
    def notices(self) -> Notices:
        """Reads the sinks that receive notices of events."""
        from rqueue.notices.store import Notices  # noqa: PLC0415

        return Notices(self._internals.shard)

    @property
    def archive(self) -> QueueArchive:
        """Searches and maintains the archive of ended tasks."""
        from rqueue.archive.admin import QueueArchive  # noqa: PLC0415

        runtime, clock = self._internals.runtime, self._internals.clock
        operations = self._internals.operations
        return QueueArchive(operations, runtime.archive, clock, earlier=runtime.earlier)

    @property
    def artifacts(self) -> QueueArtifacts:
        """Stores and reads files and other large values, see docs/guides/artifacts.md."""
        from rqueue.artifacts.admin import QueueArtifacts  # noqa: PLC0415

        internals = self._internals
        return QueueArtifacts(internals.operations, internals.runtime.shelf, internals.clock)
