"""`queue.dead`: lists dead tasks, groups them into clusters, and carries out decisions on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from typing_extensions import TypedDict, Unpack

from rqueue.core import index
from rqueue.core.index import Filter
from rqueue.core.outbox import is_joined
from rqueue.dead import reviews
from rqueue.dead import store as dead_store
from rqueue.dead.clusters import LENGTH
from rqueue.dead.decide import Decision, DecisionOptions, changes, decision_of, fingerprint_of
from rqueue.dead.reviews import ENDING, REVIVING, Resolution, Review
from rqueue.dead.store import Reviewed, Revival
from rqueue.errors import InvalidTask, RQueueError, WrongState
from rqueue.producer import arguments
from rqueue.producer.drafts import to_ms
from rqueue.producer.earlier import archive_unknown
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive
    from rqueue.operations import Operations, Progress
    from rqueue.task.task import Task

# Upper bound of the `life` argument.
MOST_LIVES = 1_000_000_000
DEAD = frozenset({State.DEAD_LETTERED})
# Tasks per call of a bulk decision.
PAGE = 250
EXAMPLES = 3
NO_PAYLOAD = "is needed to retry with a changed payload"


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """A filter of dead tasks. All given conditions must match. `agent` is the task's agent or the
    worker that failed it last, `before` an upper bound of its time of death, `cluster` its
    fingerprint.
    """

    type: str | None = None
    reason: str | None = None
    cluster: str | None = None
    agent: str | None = None
    tag: str | None = None
    before: datetime | None = None

    def plain(self) -> Filter:
        """Returns the conditions that apply to tasks in any state."""
        return Filter(states=DEAD, type=self.type, tag=self.tag)

    def fits(self, task: Task) -> bool:
        """Returns whether a dead task matches the conditions that `plain` does not contain."""
        return (
            (self.reason is None or task.failure_reason == self.reason)
            and (self.agent is None or self.agent in (task.spec.agent_name, worker_of(task)))
            and (self.before is None or died(task) < self.before)
            and (self.cluster is None or fingerprint_of(task).id == self.cluster)
        )


@dataclass(slots=True)
class Cluster:
    """Dead tasks that failed in the same way; `pattern` is the common text of their errors."""

    fingerprint: str
    type: str
    reason: str
    pattern: str
    tasks: int = 0
    poison_pills: int = 0
    escalated: int = 0
    cost_usd: float = 0.0
    first: datetime | None = None
    last: datetime | None = None
    examples: list[TaskId] = field(default_factory=list)

    def add(self, task: Task) -> None:
        """Adds a task to the counts."""
        at = died(task)
        self.tasks += 1
        self.poison_pills += task.poison_pill
        self.escalated += task.reviewed
        self.cost_usd += task.cost_usd
        self.first, self.last = min(self.first or at, at), max(self.last or at, at)
        if len(self.examples) < EXAMPLES:
            self.examples.append(task.id)


class Chosen(NamedTuple):
    """A selected dead task, and its life at the time of selection."""

    task: TaskId
    life: int


@dataclass(slots=True)
class Resolved:
    """The dead tasks that matched a filter. Unless it was a dry run, `done` are those that were
    resolved, and `refused` those that could not be, with the reason.
    """

    tasks: list[TaskId] = field(default_factory=list)
    done: list[TaskId] = field(default_factory=list)
    refused: dict[TaskId, str] = field(default_factory=dict)


class DeadOperations:
    """Operations on the dead tasks of one shard. If an archive is configured, decisions are read
    from there, too.
    """

    def __init__(self, operations: Operations, archive: Archive | None = None) -> None:
        self.operations = operations
        self.archive = archive
        self.shard = operations.shard

    async def find(self, wanted: DeadFilter) -> AsyncIterator[Task]:
        """Yields the matching dead tasks in no order. Reads them in pages."""
        async for task in self.operations.find(wanted.plain()):
            if wanted.fits(task):
                yield task

    async def latest(self, wanted: DeadFilter) -> AsyncIterator[Task]:
        """Yields the matching dead tasks, newest first. Reads them in pages. This is for display;
        decisions use `find`, which misses no task if others are removed meanwhile.
        """
        pages = index.newest(self.shard, self.shard.keys.dead())
        async for task in self.operations.met(pages, wanted.plain()):
            if wanted.fits(task):
                yield task

    async def clusters(self, wanted: DeadFilter) -> list[Cluster]:
        """Returns the clusters of the matching dead tasks, the largest first."""
        found: dict[str, Cluster] = {}
        async for task in self.find(wanted):
            id, pattern = fingerprint_of(task)
            if id not in found:
                found[id] = Cluster(id, task.type, task.failure_reason or "", pattern)
            found[id].add(task)
        return sorted(found.values(), key=lambda one: (-one.tasks, one.fingerprint))

    async def decide(
        self, task: str, decision: Decision, payload: object = None, *, life: int | None = None
    ) -> Task:
        """Carries out a decision on one dead task and returns the updated task. `life` is the
        expected life, by default the current one. Raises TaskNotFound, WrongState if the task is
        not dead, AlreadyDecided if another decision came first, and the errors of `retry`.
        """
        check_payload(decision, payload)
        found = await self.operations.present(task)
        if life is not None:
            # The move reports whether this life was already decided.
            found = found.model_copy(update={"life": life})
        else:
            check_dead(found)
        if payload is not None:
            await self.revive(found, decision, payload)
        else:
            row = Reviewed(found.id.ulid, found.life, decision.review(found))
            ((_, fault),) = await self.carry_out([row], decision)
            if fault is not None:
                raise fault
        return await self.operations.get(found.id)

    async def check(self, task: str, decision: Decision, payload: object = None) -> Task:
        """Checks a decision without carrying it out. Returns the task. Raises TaskNotFound,
        WrongState and InvalidTask as `decide` does.
        """
        check_payload(decision, payload)
        found = await self.operations.present(task)
        check_dead(found)
        await self.revival(found, decision, payload)
        return found

    async def retry(self, task: str, *, payload: object = None, delay: float = 0) -> State:
        """Retries a dead task, with a new payload if one is given."""
        delay_ms = round(1000 * arguments.seconds_of("delay", delay))
        found = await self.operations.present(task)
        word: Resolution = "retry" if payload is None else "modify_and_retry"
        decision = self.operations.plain("wait" if word == "retry" and delay_ms else word)
        return await self.revive(found, decision, payload, delay_ms=delay_ms)

    async def revive(
        self, found: Task, decision: Decision, payload: object = None, *, delay_ms: int = 0
    ) -> State:
        """Retries a dead task by this decision, with a new payload if one is given."""
        revival = await self.revival(found, decision, payload, delay_ms=delay_ms)
        return await dead_store.revive(self.shard, revival)

    async def revival(
        self, found: Task, decision: Decision, payload: object = None, *, delay_ms: int = 0
    ) -> Revival:
        """Returns the request for a retry. Raises InvalidTask for an invalid payload."""
        definition, diff = b"", ""
        if payload is not None:
            definition = self.operations.changed(
                await self.operations.reader.definition(found.id.ulid), payload
            )
            diff = changes(found.payload, payload)
        review = decision.review(found, diff)
        return Revival(found.id.ulid, found.life, review, definition, delay_ms)

    async def discard(self, task: str, reason: str = "") -> None:
        """Discards a dead task. Raises WrongState if it is not dead, and AlreadyDecided if another
        decision came first.
        """
        why = arguments.reason_of(reason)
        known = await self.operations.id_of(task)
        # A task that cannot be decoded can still be discarded.
        (found,) = await self.operations.reader.read([known.ulid])
        review = self.operations.plain("cancel", why).review(found)
        rows = [Reviewed(known.ulid, None if found is None else found.life, review)]
        words = await dead_store.discard(self.shard, rows, reason=why)
        (fault,) = await dead_store.faults(self.shard, "task/discard", rows, words)
        if fault is not None:
            raise fault

    async def chosen(self, wanted: DeadFilter) -> list[Chosen]:
        """Returns the dead tasks that match now. After a confirmation, `decide_many` takes them."""
        # Only ids and lives are kept, because all payloads together may not fit into memory.
        return [Chosen(task.id, task.life) async for task in self.find(wanted)]

    async def decide_many(
        self, chosen: Sequence[Chosen], decision: Decision, *, progress: Progress | None = None
    ) -> Resolved:
        """Carries out a decision on these dead tasks, but not on later lives of them. `progress` is
        called with the number done and the total.
        """
        found = Resolved([one.task for one in chosen])
        for start in range(0, len(chosen), PAGE):
            page = chosen[start : start + PAGE]
            tasks = await self.operations.reader.read([one.task.ulid for one in page])
            rows = [
                Reviewed(one.task.ulid, one.life, decision.review(task))
                for one, task in zip(page, tasks, strict=True)
            ]
            for id, fault in await self.carry_out(rows, decision):
                if fault is None:
                    found.done.append(id)
                else:
                    found.refused[id] = str(fault)
            if progress is not None:
                progress(start + len(page), len(chosen))
        return found

    async def carry_out(
        self, rows: Sequence[Reviewed], decision: Decision
    ) -> list[tuple[TaskId, RQueueError | None]]:
        """Carries out one decision on many tasks. Returns the error of each, None for success."""
        ids = [TaskId.from_ulid(row.task) for row in rows]
        if decision.resolution in REVIVING:
            lives = await dead_store.revive_all(self.shard, [Revival(*row) for row in rows])
            refused = [one if isinstance(one, RQueueError) else None for one in lives]
            return list(zip(ids, refused, strict=True))
        if decision.resolution in ENDING:
            move, reason = "task/discard", decision.note or decision.resolution
            words = await dead_store.discard(
                self.shard, rows, reason=reason[: arguments.MAX_REASON]
            )
        else:
            move, words = "task/escalate", await dead_store.escalate(self.shard, rows)
        faults = await dead_store.faults(self.shard, move, rows, words)
        return list(zip(ids, faults, strict=True))

    async def waiting_for(self, task: TaskId, *, limit: int) -> tuple[int, list[TaskId]]:
        """Returns the number of a task's dependents, and some of them."""
        return await dead_store.dependents(self.shard, task.ulid, limit=limit)

    async def reviews(
        self, since: datetime | None, until: datetime | None, task: TaskId | None = None
    ) -> AsyncIterator[Review]:
        """Yields the decisions in a time range, oldest first, `until` excluded, optionally only
        those on one task. Those in the archive come first. Raises ConfigError if the queue has an
        archive that is not configured here, because the list would be incomplete.
        """
        # The stream is read first: an entry that is removed from it meanwhile is in the archive.
        waiting = await self.waiting(since, until, task)
        if self.archive is None:
            # All decisions are in the stream unless an archiver has joined.
            if await is_joined(self.shard):
                raise archive_unknown("have decisions that would be missing")
        else:
            # The package of the archive is an optional dependency.
            from rqueue.archive.reports import ReviewFilter, read_reviews  # noqa: PLC0415

            wanted = ReviewFilter(self.operations.settings.name, since, until, task)
            async for review in read_reviews(self.archive, wanted):
                waiting.pop(review.entry, None)
                yield review
        for review in waiting.values():
            yield review

    async def waiting(
        self, since: datetime | None, until: datetime | None, task: TaskId | None = None
    ) -> dict[str, Review]:
        """Returns the decisions that are still in the stream, by entry."""
        since_ms = None if since is None else to_ms(since)
        until_ms = None if until is None else to_ms(until)
        walk = reviews.walk(self.shard, since_ms=since_ms, until_ms=until_ms)
        return {one.entry: one async for one in walk if task in (None, one.task)}


class Wanted(TypedDict, total=False):
    """Filter options. All given conditions must match. `agent` is the task's agent or the worker
    that failed it last, `cluster` a fingerprint, `before` an upper bound of the time of death.
    """

    type: str | None
    reason: str | None
    cluster: str | None
    agent: str | None
    tag: str | None
    before: datetime | str | None


class Many(Wanted, DecisionOptions, total=False):
    """Filter options and decision options together."""


class DeadTasks:
    """`queue.dead`."""

    def __init__(self, operations: DeadOperations) -> None:
        self._operations = operations

    async def list(self, **wanted: Unpack[Wanted]) -> AsyncIterator[Task]:
        """Yields the dead tasks that match, in no order. Reads them in pages."""
        async for task in self._operations.find(dead_filter(wanted)):
            yield task

    async def clusters(self, **wanted: Unpack[Wanted]) -> Sequence[Cluster]:
        """Returns the matching dead tasks grouped by type, reason and error text without its
        variable parts. The largest cluster comes first.
        """
        return await self._operations.clusters(dead_filter(wanted))

    async def retry(self, task: str, *, delay: float = 0) -> State:
        """Retries a dead task after `delay` seconds."""
        return await self._operations.retry(task, delay=delay)

    async def edit(self, task: str, payload: object, *, delay: float = 0) -> State:
        """Retries a dead task with another payload."""
        if payload is None:
            raise InvalidTask("payload", NO_PAYLOAD)
        return await self._operations.retry(task, payload=payload, delay=delay)

    async def discard(self, task: str, reason: str = "") -> None:
        """Discards a dead task and cancels its dependents."""
        await self._operations.discard(task, reason)

    async def decide(
        self,
        task: str,
        resolution: Resolution,
        *,
        payload: object = None,
        life: int | None = None,
        **options: Unpack[DecisionOptions],
    ) -> Task:
        """Decides on a dead task and returns the updated task. The decision is stored with its
        `cause` (a label), its `note` and its author `by`.

        `retry` retries the task, `modify_and_retry` retries it with another payload, `wait` retries
        it at `not_before`. `escalate` leaves it dead and marks it. `cancel` and `delete` end it and
        cancel its dependents. `life` is the expected life of the task; a decision on another life
        is refused. Raises InvalidTask, TaskNotFound, WrongState if the task is not dead, its
        subclass AlreadyDecided if another decision came first, and KeyTaken, DagEnded and
        InvalidGraph if the task cannot be retried.
        """
        if life is not None:
            arguments.number_of("life", life, most=MOST_LIVES)
        decision = decision_of(resolution, options, by=self._operations.operations.reviewer)
        return await self._operations.decide(task, decision, payload, life=life)

    async def decide_many(
        self,
        resolution: Resolution,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        **given: Unpack[Many],
    ) -> Resolved:
        """Runs `decide` on all matching dead tasks; without a filter, on all dead tasks. `dry_run`
        only lists them. A refused task is listed with the reason and does not stop the others.
        `progress` is called with the number done and the total.
        """
        filtering = Wanted.__annotations__
        wanted = {name: value for name, value in given.items() if name in filtering}
        options = {name: value for name, value in given.items() if name not in filtering}
        decision = decision_of(
            resolution, cast("DecisionOptions", options), by=self._operations.operations.reviewer
        )
        if decision.resolution == "modify_and_retry":
            raise InvalidTask("resolution", "modify_and_retry is for one task at a time")
        chosen = await self._operations.chosen(dead_filter(cast("Wanted", wanted)))
        if dry_run:
            return Resolved([one.task for one in chosen])
        return await self._operations.decide_many(chosen, decision, progress=progress)

    async def reviews(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> AsyncIterator[Review]:
        """Yields the decisions on dead tasks in a time range, oldest first, `until` excluded.
        Raises ConfigError if the queue has an archive that is not configured in this process.
        """
        low = None if since is None else arguments.instant_of("since", since)
        high = None if until is None else arguments.instant_of("until", until)
        async for review in self._operations.reviews(low, high):
            yield review


def dead_filter(given: Wanted) -> DeadFilter:
    """Returns the filter with these options. Raises InvalidTask."""
    unknown = sorted(given.keys() - Wanted.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    type, reason, agent = given.get("type"), given.get("reason"), given.get("agent")
    cluster, tag, before = given.get("cluster"), given.get("tag"), given.get("before")
    return DeadFilter(
        type=None if type is None else arguments.name_of("type", type),
        reason=None if reason is None else arguments.label_of("reason", reason),
        cluster=None if cluster is None else cluster_of(cluster),
        agent=None if agent is None else arguments.label_of("agent", agent),
        tag=None if tag is None else arguments.label_of("tag", tag),
        before=None if before is None else arguments.instant_of("before", before),
    )


def check_dead(task: Task) -> None:
    """Raises WrongState if a task is not dead."""
    if task.state is not State.DEAD_LETTERED:
        raise WrongState(task.id, found=task.state, wanted=DEAD)


def agent_of(task: Task) -> str | None:
    """Returns the agent of a task, or the worker that failed it last if it has no agent."""
    return task.spec.agent_name or worker_of(task)


def worker_of(task: Task) -> str | None:
    """Returns the worker that failed a task last."""
    return task.failure_history[-1].agent if task.failure_history else None


def died(task: Task) -> datetime:
    """Returns when a dead task died."""
    return task.updated_at or task.created_at


def check_payload(decision: Decision, payload: object) -> None:
    """Raises InvalidTask if a payload is missing or not allowed."""
    if decision.resolution == "modify_and_retry":
        if payload is None:
            raise InvalidTask("payload", NO_PAYLOAD)
    elif payload is not None:
        raise InvalidTask("payload", f"is not allowed with the decision {decision.resolution}")


def cluster_of(given: object) -> str:
    """Returns a valid fingerprint; raises InvalidTask."""
    digits = set("0123456789abcdef")
    if not isinstance(given, str) or len(given) != LENGTH or not digits.issuperset(given):
        raise InvalidTask("cluster", f"is a fingerprint: {LENGTH} digits from 0 to f")
    return given
