"""Tasks whose deadlines come near, and their place in their lanes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqueue.store.index import call
from rqueue.store.reaping import clock
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK

if TYPE_CHECKING:
    from rqueue.store.shard import Shard


class Urgency(NamedTuple):
    """A task's urgency now and when it was submitted, in millionths of a point."""

    task: str
    boost: int
    was: int


async def server_ms(shard: Shard) -> int:
    """The server's time."""
    seconds, micros = await shard.runner.connection.call(clock, what="TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def near_deadlines(
    shard: Shard, until_ms: int, *, limit: int = CHUNK
) -> AsyncIterator[list[str]]:
    """Pages of the tasks whose deadlines come until then, nearest first."""
    key = shard.keys.deadlines()
    number = await call(shard, lambda client: client.zcount(key, "-inf", until_ms))
    for start in range(0, number, limit):
        stop = min(start + limit, number) - 1
        page = await call(shard, lambda client, a=start, b=stop: client.zrange(key, a, b))
        yield [text(task) for task in page]


async def rescore(shard: Shard, rows: Sequence[Urgency]) -> list[str]:
    """Writes the urgency of tasks: OK, GONE or STATE:<found> for each."""
    return [
        text(word) for word in ok("task/rescore", "", await shard.run("task/rescore", rows=rows))
    ]
