"""Who works on a shard: the consumers of its stream, and what each has in hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from rqueue.store.queue import InHand, in_hand
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.connection import Client
    from rqueue.store.shard import Shard

GROUP = "workers"
PAGE = 500
# What the server says of a stream or a group that is not there yet.
NOT_YET = ("no such key", "NOGROUP")


@dataclass(slots=True)
class Consumer:
    """A worker as the stream knows it; `idle_ms` since it last claimed or renewed."""

    name: str
    idle_ms: int
    held: list[InHand] = field(default_factory=list)


async def read_consumers(shard: Shard) -> list[Consumer]:
    """Every consumer, by name, with its leases; read in pages."""
    key = shard.keys.ready()
    rows = await shard.runner.connection.call(lambda c: ask(c, key), what="XINFO CONSUMERS")
    found = {
        text(row["name"]): Consumer(text(row["name"]), int(row.get("inactive", row["idle"])))
        for row in rows
    }
    after = ""
    while page := await in_hand(shard, idle_ms=0, after=after, limit=PAGE):
        after = page[-1].entry
        for lease in page:
            # One that came after the first read is heard of as its lease is.
            known = found.setdefault(lease.consumer, Consumer(lease.consumer, lease.idle_ms))
            known.held.append(lease)
    return [found[name] for name in sorted(found)]


async def ask(client: Client, key: str) -> list[dict[str, Any]]:
    """The group's consumers; none where nothing has been claimed yet."""
    try:
        rows: list[dict[str, Any]] = await client.xinfo_consumers(key, GROUP)
    except ResponseError as error:
        if any(word in str(error) for word in NOT_YET):
            return []
        raise
    return rows
