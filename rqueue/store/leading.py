"""Who runs the services of a shard: one owner at a time, for a while, by the server's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.store.reaping import read_seen
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


@dataclass(frozen=True, slots=True)
class Term:
    """Who leads, in which epoch, for how long still, and the server's time when it said so."""

    owner: str
    epoch: int
    left_ms: int
    server_ms: int


async def lead(shard: Shard, owner: str, *, ttl_ms: int) -> Term:
    """Takes or renews the leadership if it is free or one's own; the term that holds now."""
    args: dict[str, Argument] = {"owner": owner, "ttl_ms": ttl_ms}
    found, epoch, left, now = ok("queue/lead", owner, await shard.run("queue/lead", args))
    return Term(text(found), int(epoch), int(left), int(now))


async def yield_lead(shard: Shard, owner: str) -> bool:
    """Gives the leadership up at once; False where it was another's already."""
    reply = await shard.run("queue/yield", {"owner": owner})
    if text(reply[0]) == "LOST":
        return False
    ok("queue/yield", owner, reply)
    return True


async def leader(shard: Shard) -> Term | None:
    """Who leads now, without asking to; None when nobody does."""
    key = shard.keys.leader()
    found: Any = await shard.runner.connection.call(lambda c: c.hgetall(key), what="leader")
    now_ms, _ = await read_seen(shard)
    left_ms = int(found.get(b"until_ms", 0)) - now_ms
    if left_ms <= 0:
        return None
    return Term(text(found[b"owner"]), int(found[b"epoch"]), left_ms, now_ms)
