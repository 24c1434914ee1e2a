"""What the reaper remembers of the server between two looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqueue.policy.lease import Seen
from rqueue.store.replies import ok, text
from rqueue.store.shard import CHUNK

if TYPE_CHECKING:
    from rqueue.store.connection import Client
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


async def read_seen(shard: Shard) -> tuple[int, Seen | None]:
    """The server's time now, and what was seen last."""
    connection, key = shard.runner.connection, shard.keys.reaper()
    found: Any = await connection.call(lambda c: c.hgetall(key), what="reaper")
    # After it: what another reaper saw meanwhile would look like a step back of the clock.
    seconds, micros = await connection.call(clock, what="TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    if not found:
        return now_ms, None
    seen = Seen(int(found[b"at_ms"]), text(found[b"run_id"]), int(found[b"hold_until_ms"]))
    return now_ms, seen


async def clock(client: Client) -> Any:
    """The server's clock; in a cluster that of the node a client would ask first."""
    answer = await client.time()
    return next(iter(answer.values())) if isinstance(answer, dict) else answer


async def write_seen(shard: Shard, seen: Seen) -> None:
    """Remembers a look."""
    args: dict[str, Argument] = {
        "at_ms": seen.at_ms,
        "run_id": seen.run_id,
        "hold_ms": seen.hold_until_ms,
    }
    ok("queue/see", "", await shard.run("queue/see", args))


async def restamp(shard: Shard) -> None:
    """Makes every lease look freshly renewed."""
    last = ""
    while True:
        args: dict[str, Argument] = {"from": f"({last}" if last else "-", "limit": CHUNK}
        last = text(ok("queue/restamp", "", await shard.run("queue/restamp", args))[0])
        if not last:
            return
