"""The desk for the dead: who they are, what they have in common, and what is decided about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rqueue.client import door
from rqueue.client.deciding import Decision, fingerprint_of
from rqueue.client.desk import Filter
from rqueue.client.drafts import to_ms
from rqueue.client.whereabouts import unknown
from rqueue.errors import InvalidTask, RQueueError, WrongState
from rqueue.model.ids import TaskId
from rqueue.model.review import ENDING, REVIVING, Review
from rqueue.model.state import State
from rqueue.policy.fingerprint import LENGTH
from rqueue.store import index, resolving, reviews
from rqueue.store.outbox import is_joined
from rqueue.store.resolving import Reviewed, Revival

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive
    from rqueue.client.desk import Desk
    from rqueue.client.ending import Told
    from rqueue.model.task import Task

DEAD = frozenset({State.DEAD_LETTERED})
# Tasks that one call decides about.
PAGE = 250
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead tasks are meant: all that fit everything given. `agent` is the one it was for or
    the worker that failed it last, `before` when it died, `cluster` its fingerprint.
    """

    type: str | None = None
    reason: str | None = None
    cluster: str | None = None
    agent: str | None = None
    tag: str | None = None
    before: datetime | None = None

    def plain(self) -> Filter:
        """What of it is asked of any task."""
        return Filter(states=DEAD, type=self.type, tag=self.tag)

    def fits(self, task: Task) -> bool:
        """Whether a dead task is meant, beside what `plain` asks."""
        return (
            (self.reason is None or task.failure_reason == self.reason)
            and (self.agent is None or self.agent in (task.spec.agent_name, worker_of(task)))
            and (self.before is None or died(task) < self.before)
            and (self.cluster is None or fingerprint_of(task).id == self.cluster)
        )


@dataclass(slots=True)
class Cluster:
    """Dead tasks that failed in the same way; `pattern` is what their errors look like."""

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
        """Counts one more."""
        at = died(task)
        self.tasks += 1
        self.poison_pills += task.poison_pill
        self.escalated += task.reviewed
        self.cost_usd += task.cost_usd
        self.first, self.last = min(self.first or at, at), max(self.last or at, at)
        if len(self.examples) < EXAMPLES:
            self.examples.append(task.id)


class Chosen(NamedTuple):
    """A dead task that somebody has looked at, and the life that it was in."""

    task: TaskId
    life: int


@dataclass(slots=True)
class Resolved:
    """What a filter found among the dead and, unless it was a dry run, what became of it; those
    that could not be resolved are `refused`, each with the reason.
    """

    tasks: list[TaskId] = field(default_factory=list)
    done: list[TaskId] = field(default_factory=list)
    refused: dict[TaskId, str] = field(default_factory=dict)


class ReviewDesk:
    """What is seen of the dead of one shard, and done about them. Decisions are read from its
    archive, too, where that is known.
    """

    def __init__(self, desk: Desk, archive: Archive | None = None) -> None:
        self.desk = desk
        self.archive = archive
        self.shard = desk.shard

    async def find(self, wanted: DeadFilter) -> AsyncIterator[Task]:
        """The dead tasks that are meant, in no order, read as they are walked."""
        async for task in self.desk.find(wanted.plain()):
            if wanted.fits(task):
                yield task

    async def latest(self, wanted: DeadFilter) -> AsyncIterator[Task]:
        """The dead tasks that are meant, the last that died first, read as they are walked: to be
        looked at. Decisions go by `find`, which misses none whatever leaves meanwhile.
        """
        pages = index.newest(self.shard, self.shard.keys.dead())
        async for task in self.desk.met(pages, wanted.plain()):
            if wanted.fits(task):
                yield task

    async def clusters(self, wanted: DeadFilter) -> list[Cluster]:
        """What the dead have in common, the largest cluster first."""
        found: dict[str, Cluster] = {}
        async for task in self.find(wanted):
            id, pattern = fingerprint_of(task)
            if id not in found:
                found[id] = Cluster(id, task.type, task.failure_reason or "", pattern)
            found[id].add(task)
        return sorted(found.values(), key=lambda one: (-one.tasks, one.fingerprint))

    async def resolve(
        self, task: str, decision: Decision, payload: object = None, *, life: int | None = None
    ) -> Task:
        """Carries a decision about one dead task out; the task as it is then. `life` is the one
        that was looked at, by default the one that is found. Raises TaskNotFound, WrongState where
        it is not dead, AlreadyDecided where it is not any more, and what `revive` raises.
        """
        check_payload(decision, payload)
        found = await self.desk.present(task)
        if life is not None:
            # What another did to this life is told by the script.
            found = found.model_copy(update={"life": life})
        else:
            check_dead(found)
        if payload is not None:
            await self.desk.live_again(found, decision, payload)
        else:
            row = Reviewed(found.id.ulid, found.life, decision.review(found))
            ((_, fault),) = await self.carry_out([row], decision)
            if fault is not None:
                raise fault
        return await self.desk.get(found.id)

    async def check(self, task: str, decision: Decision, payload: object = None) -> Task:
        """A dead task about which this may be decided, as far as can be told without doing it;
        raises TaskNotFound, WrongState and InvalidTask as `resolve` does.
        """
        check_payload(decision, payload)
        found = await self.desk.present(task)
        check_dead(found)
        await self.desk.revival(found, decision, payload)
        return found

    async def chosen(self, wanted: DeadFilter) -> list[Chosen]:
        """The dead tasks that are meant now, to be decided about when somebody has agreed."""
        # Ids and lives alone are kept: all payloads may be more than memory holds.
        return [Chosen(task.id, task.life) async for task in self.find(wanted)]

    async def resolve_many(
        self, chosen: Sequence[Chosen], decision: Decision, *, told: Told | None = None
    ) -> Resolved:
        """Carries a decision out about these dead tasks, and no later life of them; `told` hears
        how many of how many are done.
        """
        found = Resolved([one.task for one in chosen])
        for start in range(0, len(chosen), PAGE):
            page = chosen[start : start + PAGE]
            tasks = await self.desk.reader.read([one.task.ulid for one in page])
            rows = [
                Reviewed(one.task.ulid, one.life, decision.review(task))
                for one, task in zip(page, tasks, strict=True)
            ]
            for id, fault in await self.carry_out(rows, decision):
                if fault is None:
                    found.done.append(id)
                else:
                    found.refused[id] = str(fault)
            if told is not None:
                told(start + len(page), len(chosen))
        return found

    async def carry_out(
        self, rows: Sequence[Reviewed], decision: Decision
    ) -> list[tuple[TaskId, RQueueError | None]]:
        """Does to tasks what was decided about all of them; for each what stood in its way."""
        ids = [TaskId.from_ulid(row.task) for row in rows]
        if decision.resolution in REVIVING:
            lives = await resolving.revive_all(self.shard, [Revival(*row) for row in rows])
            refused = [one if isinstance(one, RQueueError) else None for one in lives]
            return list(zip(ids, refused, strict=True))
        if decision.resolution in ENDING:
            script, reason = "task/discard", decision.note or decision.resolution
            words = await resolving.discard(self.shard, rows, reason=reason[: door.MAX_REASON])
        else:
            script, words = "task/escalate", await resolving.escalate(self.shard, rows)
        faults = await resolving.faults(self.shard, script, rows, words)
        return list(zip(ids, faults, strict=True))

    async def waiting_for(self, task: TaskId, *, limit: int) -> tuple[int, list[TaskId]]:
        """How many tasks wait for one, and some of them."""
        return await resolving.dependents(self.shard, task.ulid, limit=limit)

    async def reviews(
        self, since: datetime | None, until: datetime | None, task: TaskId | None = None
    ) -> AsyncIterator[Review]:
        """The decisions from one time until before another, oldest first; all, or those about one
        task. The archive's come first. Raises ConfigError where there is one and nobody here knows
        where: a part would be taken for the whole.
        """
        # Before the archive is read: what leaves the stream meanwhile is in the archive then.
        waiting = await self.waiting(since, until, task)
        if self.archive is None:
            # Settings alone archive nothing: what nobody has joined has all in the stream.
            if await is_joined(self.shard):
                raise unknown("have decisions that would be missing")
        else:
            # The archive's own package is an extra.
            from rqueue.archive.reviews import Asked, read_reviews  # noqa: PLC0415

            asked = Asked(self.desk.settings.name, since, until, task)
            async for review in read_reviews(self.archive, asked):
                waiting.pop(review.entry, None)
                yield review
        for review in waiting.values():
            yield review

    async def waiting(
        self, since: datetime | None, until: datetime | None, task: TaskId | None = None
    ) -> dict[str, Review]:
        """The same decisions as far as they are not in an archive, by their entries."""
        since_ms = None if since is None else to_ms(since)
        until_ms = None if until is None else to_ms(until)
        walk = reviews.walk(self.shard, since_ms=since_ms, until_ms=until_ms)
        return {one.entry: one async for one in walk if task in (None, one.task)}


def check_dead(task: Task) -> None:
    """Raises WrongState where a task is not dead."""
    if task.state is not State.DEAD_LETTERED:
        raise WrongState(task.id, found=task.state, wanted=DEAD)


def agent_of(task: Task) -> str | None:
    """The agent that a task was for; where it was for any, the worker that failed it last."""
    return task.spec.agent_name or worker_of(task)


def worker_of(task: Task) -> str | None:
    """The worker that failed a task last."""
    return task.failure_history[-1].agent if task.failure_history else None


def died(task: Task) -> datetime:
    """When a dead task died."""
    return task.updated_at or task.created_at


def check_payload(decision: Decision, payload: object) -> None:
    """Raises InvalidTask where a payload is missing, or given for nothing."""
    if decision.resolution == "modify_and_retry":
        if payload is None:
            raise InvalidTask("payload", "is needed: with what shall it be retried?")
    elif payload is not None:
        raise InvalidTask("payload", f"makes no sense where the decision is {decision.resolution}")


def cluster_of(given: object) -> str:
    """A fingerprint, as it is shown."""
    digits = set("0123456789abcdef")
    if not isinstance(given, str) or len(given) != LENGTH or not digits.issuperset(given):
        raise InvalidTask("cluster", f"is a fingerprint: {LENGTH} digits from 0 to f")
    return given
