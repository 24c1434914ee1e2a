"""Pages of task ids by state, from the indexes, without scanning all keys."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rqueue.core.counts import read_leases
from rqueue.store.lanes import read_lanes
from rqueue.task.state import LEASED, LIVE, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.store.shard import Shard
    from rqueue.task.dag import Dag
    from rqueue.task.task import Task


PAGE = 500
# Pages of the tasks of the chosen DAGs.
Members: TypeAlias = "Callable[[Shard, Callable[[Dag], bool]], AsyncIterator[list[str]]]"


async def ids(
    shard: Shard,
    states: Iterable[State],
    *,
    members: Members,
    type: str | None = None,
    tag: str | None = None,
) -> AsyncIterator[list[str]]:
    """Pages of ULIDs that may be in these states, unordered and perhaps repeated; the reader of a
    task checks its state. A task that stays in one state during the walk is always among them.

    Of ended tasks only the dead ones are indexed; the archive has the others.
    """
    if tag is not None:
        async for page in walk(shard, shard.keys.tag_list(tag)):
            yield page
        return
    async for pages in places(shard, frozenset(states), members, type):
        async for page in pages:
            yield page


async def places(
    shard: Shard, states: frozenset[State], members: Members, type: str | None
) -> AsyncIterator[AsyncIterator[list[str]]]:
    """The pages of each index that holds tasks of these states, in the order of a task's life: one
    that moves on meanwhile is found again in a later index.
    """
    if State.PENDING in states:
        yield walk(shard, shard.keys.blocked())
        yield members(shard, lambda dag: dag.finished_at is None)
    if State.RETRYING in states:
        yield walk(shard, shard.keys.delayed())
    if State.READY in states:
        for lane, number in (await read_lanes(shard)).numbers.items():
            if type in (None, lane.type):
                yield walk(shard, shard.keys.lane(number))
        # READY tasks of DAGs that are paused, cancelled or out of budget are not in their lanes.
        yield members(
            shard, lambda dag: dag.paused or dag.closing or dag.spec.budget_usd is not None
        )
    if states & LEASED:
        yield leased(shard)
    if State.DEAD_LETTERED in states:
        yield walk(shard, shard.keys.dead())


async def walk(shard: Shard, key: str) -> AsyncIterator[list[str]]:
    """The members of a sorted set, unordered. ZSCAN returns every member that is present during the
    whole walk, whatever is added, removed or moved; ranks and scores would shift.
    """
    cursor = 0
    while True:
        cursor, page = await call(
            shard, lambda client, at=cursor: client.zscan(key, at, count=PAGE)
        )
        yield [member.decode() for member, _ in page]
        if int(cursor) == 0:
            return


async def newest(shard: Shard, key: str) -> AsyncIterator[list[str]]:
    """The members of a sorted set from the highest score down, perhaps repeated. Goes by score,
    which stays while ranks shift; only where more than a page has one score, some of those may be
    missed while others are removed.
    """
    most, skip = math.inf, 0
    while True:
        page = await call(
            shard,
            lambda client, most=most, skip=skip: client.zrevrangebyscore(
                key, most, -math.inf, start=skip, num=PAGE, withscores=True
            ),
        )
        yield [member.decode() for member, _ in page]
        if len(page) < PAGE:
            return
        least = page[-1][1]
        most, skip = least, skip + PAGE if least == most else 0


async def leased(shard: Shard) -> AsyncIterator[list[str]]:
    """The leased tasks."""
    after = ""
    while page := await read_leases(shard, idle_ms=0, after=after, limit=PAGE):
        after = page[-1].entry
        yield [lease.task for lease in page if lease.task]


async def call(shard: Shard, send: Callable[..., Any]) -> Any:
    """Sends one plain command."""
    return await shard.runner.connection.call(send, what="index")


async def exists(shard: Shard, task: str) -> bool:
    """Whether there is a task with this ULID."""
    return bool(await call(shard, lambda client: client.exists(shard.keys.task(task))))


async def resolve(shard: Shard, external: str) -> str | None:
    """The ULID of the task with this external id (see `external_key`)."""
    found = await call(shard, lambda client: client.get(shard.keys.external(external)))
    return None if found is None else found.decode()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are chosen: those that fit every given part."""

    states: frozenset[State] = LIVE
    type: str | None = None
    tag: str | None = None
    before: datetime | None = None

    def fits(self, task: Task) -> bool:
        """Whether a task is chosen."""
        return (
            task.state in self.states
            and (self.type is None or task.spec.type == self.type)
            and (self.tag is None or self.tag in task.spec.tags)
            and (self.before is None or task.created_at < self.before)
        )
