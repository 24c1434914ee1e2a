"""Where tasks of a state stand: pages of ids, without walking all keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from rqueue.model.state import IN_HAND, State
from rqueue.store.lanes import read_lanes
from rqueue.store.queue import in_hand

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

PAGE = 500


async def ids(
    shard: Shard, states: Iterable[State], *, type: str | None = None, tag: str | None = None
) -> AsyncIterator[list[str]]:
    """Pages of ULIDs that may be in these states; the reader of a task sees whether it still is.

    Ended tasks are in no index but the dead ones: the archive has them.
    """
    if tag is not None:
        async for page in walk(shard, shard.keys.tag_list(tag)):
            yield page
        return
    wanted = frozenset(states)
    for key in await keys_of(shard, wanted, type):
        async for page in walk(shard, key):
            yield page
    if wanted & IN_HAND:
        async for page in held(shard):
            yield page


async def keys_of(shard: Shard, states: frozenset[State], type: str | None) -> list[str]:
    """The sorted sets that hold tasks of these states."""
    found: list[str] = []
    if State.READY in states:
        lanes = (await read_lanes(shard)).numbers
        found += [shard.keys.lane(lanes[lane]) for lane in lanes if type in (None, lane.type)]
    if State.PENDING in states:
        found.append(shard.keys.blocked())
    if State.RETRYING in states:
        found.append(shard.keys.delayed())
    if State.DEAD_LETTERED in states:
        found.append(shard.keys.dead())
    return found


async def walk(shard: Shard, key: str) -> AsyncIterator[list[str]]:
    """A sorted set from end to start: what is taken away behind the reader shifts no rank."""
    total = await call(shard, lambda client: client.zcard(key))
    for stop in range(total - 1, -1, -PAGE):
        start = max(0, stop - PAGE + 1)
        page = await call(shard, lambda client, a=start, b=stop: client.zrange(key, a, b))
        yield [member.decode() for member in page]


async def held(shard: Shard) -> AsyncIterator[list[str]]:
    """What workers have in hand."""
    after = ""
    while page := await in_hand(shard, idle_ms=0, after=after, limit=PAGE):
        after = page[-1].entry
        yield [lease.task for lease in page if lease.task]


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
