"""What reviewers do about the dead tasks of a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from typing_extensions import TypedDict, Unpack

from rqueue.client import door
from rqueue.client.deciding import Told, decision_of
from rqueue.client.reviewing import Cluster, DeadFilter, Resolved, ReviewDesk, cluster_of
from rqueue.errors import InvalidTask
from rqueue.services.roster import has_server

# More lives than any task has.
MOST_LIVES = 1_000_000_000

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.client.desk import Desk
    from rqueue.client.ending import Told as Heard
    from rqueue.model.review import Resolution, Review
    from rqueue.model.task import Task
    from rqueue.runtime import Runtime


class Wanted(TypedDict, total=False):
    """Which dead tasks are meant: all that fit everything given. `agent` is the one it was for or
    the worker that failed it last, `cluster` a fingerprint, `before` is about when it died.
    """

    type: str | None
    reason: str | None
    cluster: str | None
    agent: str | None
    tag: str | None
    before: datetime | str | None


class Many(Wanted, Told, total=False):
    """Which dead tasks are meant, and what is said of the decision about them."""


class Reviewing:
    """The reviewer's part of a queue."""

    desk: Desk
    runtime: Runtime

    @property
    def review_desk(self) -> ReviewDesk:
        """What looks at the dead and decides about them."""
        known = has_server(self.runtime.settings)
        return ReviewDesk(self.desk, self.runtime.archive if known else None)

    async def dead_tasks(self, **wanted: Unpack[Wanted]) -> AsyncIterator[Task]:
        """The dead tasks that fit, in no order, read as they are walked."""
        async for task in self.review_desk.find(dead_filter(wanted)):
            yield task

    async def dead_clusters(self, **wanted: Unpack[Wanted]) -> list[Cluster]:
        """What the dead that fit have in common: type, reason and the text of their errors without
        what varies. The largest cluster comes first.
        """
        return await self.review_desk.clusters(dead_filter(wanted))

    async def resolve(
        self,
        task: str,
        resolution: Resolution,
        *,
        payload: object = None,
        life: int | None = None,
        **said: Unpack[Told],
    ) -> Task:
        """Decides about a dead task, and keeps the decision with its `cause`, a label, its `note`,
        and `by` whom; the task as it is then.

        `retry` gives it a new life, `modify_and_retry` one with another payload, `wait` one that
        begins at `not_before`. `escalate` leaves it dead and marks it. `cancel` and `delete` end
        it: what waits for it is cancelled. `life` is that of the task that you have looked at:
        nothing is decided about another. Raises InvalidTask, TaskNotFound, WrongState where it is
        not dead, AlreadyDecided, which is one, where another was quicker, and KeyTaken, DagEnded
        and InvalidGraph where it cannot live again.
        """
        if life is not None:
            door.number_of("life", life, most=MOST_LIVES)
        decision = decision_of(resolution, said, by=self.desk.reviewer)
        return await self.review_desk.resolve(task, decision, payload, life=life)

    async def resolve_many(
        self,
        resolution: Resolution,
        *,
        dry_run: bool = False,
        told: Heard | None = None,
        **given: Unpack[Many],
    ) -> Resolved:
        """`resolve` for all dead tasks that fit; with `dry_run` only says which. One that cannot
        be resolved is among the `refused`, with the reason, and stops no other. `told` hears how
        many of how many are done. Without a filter it means all that are dead.
        """
        filtering = Wanted.__annotations__
        wanted = {name: value for name, value in given.items() if name in filtering}
        said = {name: value for name, value in given.items() if name not in filtering}
        decision = decision_of(resolution, cast("Told", said), by=self.desk.reviewer)
        if decision.resolution == "modify_and_retry":
            raise InvalidTask("resolution", "modify_and_retry is for one task at a time")
        chosen = await self.review_desk.chosen(dead_filter(cast("Wanted", wanted)))
        if dry_run:
            return Resolved([one.task for one in chosen])
        return await self.review_desk.resolve_many(chosen, decision, told=told)

    async def reviews(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> AsyncIterator[Review]:
        """What was decided about dead tasks, from one time until before another, oldest first.
        Raises ConfigError where the queue has an archive and this process does not know where.
        """
        low = None if since is None else door.instant_of("since", since)
        high = None if until is None else door.instant_of("until", until)
        async for review in self.review_desk.reviews(low, high):
            yield review


def dead_filter(given: Wanted) -> DeadFilter:
    """The filter of these words, or InvalidTask."""
    unknown = sorted(given.keys() - Wanted.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    type, reason, agent = given.get("type"), given.get("reason"), given.get("agent")
    cluster, tag, before = given.get("cluster"), given.get("tag"), given.get("before")
    return DeadFilter(
        type=None if type is None else door.name_of("type", type),
        reason=None if reason is None else door.label_of("reason", reason),
        cluster=None if cluster is None else cluster_of(cluster),
        agent=None if agent is None else door.label_of("agent", agent),
        tag=None if tag is None else door.label_of("tag", tag),
        before=None if before is None else door.instant_of("before", before),
    )
