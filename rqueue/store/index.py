"""Where tasks of a state stand: pages of ids, without walking all keys."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from rqueue.model.state import IN_HAND, State
from rqueue.store import dags
from rqueue.store.lanes import read_lanes
from rqueue.store.queue import in_hand

if TYPE_CHECKING:
    from rqueue.model.dag import Dag
    from rqueue.store.shard import Shard

PAGE = 500


async def ids(
    shard: Shard, states: Iterable[State], *, type: str | None = None, tag: str | None = None
) -> AsyncIterator[list[str]]:
    """Pages of ULIDs that may be in these states, in no order and perhaps twice; the reader of a
    task sees whether it still is. What stays in its place through the walk is among them.

    Ended tasks are in no index but the dead ones: the archive has them.
    """
    if tag is not None:
        async for page in walk(shard, shard.keys.tag_list(tag)):
            yield page
        return
    async for pages in places(shard, frozenset(states), type):
        async for page in pages:
            yield page


async def places(
    shard: Shard, states: frozenset[State], type: str | None
) -> AsyncIterator[AsyncIterator[list[str]]]:
    """The pages of each place that holds tasks of these states, in the order of a task's life:
    one that moves on meanwhile is met again where it has gone.
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
        # Where a DAG is paused, given up or out of money, they are out of their lanes.
        yield members(
            shard, lambda dag: dag.paused or dag.closing or dag.spec.budget_usd is not None
        )
    if states & IN_HAND:
        yield held(shard)
    if State.DEAD_LETTERED in states:
        yield walk(shard, shard.keys.dead())


async def walk(shard: Shard, key: str) -> AsyncIterator[list[str]]:
    """A sorted set in no order. By ZSCAN, which alone misses nothing that is there all the time,
    however much is put in, taken out or moved meanwhile; ranks and scores shift.
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
    """A sorted set from its highest score down, the same member perhaps twice. By score, which
    stays where ranks shift: only where more than a page has one score, some of those may be missed
    while others leave.
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


async def held(shard: Shard) -> AsyncIterator[list[str]]:
    """What workers have in hand."""
    after = ""
    while page := await in_hand(shard, idle_ms=0, after=after, limit=PAGE):
        after = page[-1].entry
        yield [lease.task for lease in page if lease.task]


async def members(shard: Shard, chosen: Callable[[Dag], bool]) -> AsyncIterator[list[str]]:
    """The tasks of the DAGs that are chosen. Tasks that wait for others of theirs are found so."""
    async for dag in dags.walk(shard):
        if chosen(dag):
            found = await dags.members(shard, dag.id)
            for start in range(0, len(found), PAGE):
                yield found[start : start + PAGE]


async def call(shard: Shard, send: Callable[..., Any]) -> Any:
    """One plain command."""
    return await shard.runner.connection.call(send, what="index")


async def exists(shard: Shard, task: str) -> bool:
    """Whether there is a task with this ULID."""
    return bool(await call(shard, lambda client: client.exists(shard.keys.task(task))))


async def resolve(shard: Shard, external: str) -> str | None:
    """The ULID of the task that a caller knows by its own id (see `external_key`)."""
    found = await call(shard, lambda client: client.get(shard.keys.external(external)))
    return None if found is None else found.decode()
