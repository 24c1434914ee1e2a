"""What time brings: retries that are due, hand-offs not taken, deadlines, unfinished fan-outs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.store.queue import answer_all
from rqueue.store.replies import ok
from rqueue.store.shard import GIVEN_UP, LIMIT, PAID, TOLD, TRIES, WOKEN, ending

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# How soon to look again at a task whose deadline passed while it was in hand.
AGAIN_MS = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One bounded step: how many tasks it moved, whether there is more, when the next is due."""

    moved: int
    more: bool
    next_ms: int = 0


async def promote(shard: Shard, *, limit: int = LIMIT) -> Step:
    """Makes READY what has waited long enough."""
    args: dict[str, Argument] = {
        "limit": limit,
        "tries": TRIES,
        "events": shard.terms.events,
        "woken": WOKEN,
        "back": PAID,
    }
    more, moved, following = ok("task/promote", "", await shard.run("task/promote", args))
    return Step(int(moved), bool(int(more)), int(float(following)))


async def recall(shard: Shard, *, limit: int = LIMIT) -> Step:
    """Takes back tasks that were mailed and not started in time."""
    args: dict[str, Argument] = {"limit": limit, "tries": TRIES}
    more, moved = ok("task/recall", "", await shard.run("task/recall", args))
    return Step(int(moved), bool(int(more)))


async def expire(shard: Shard, *, limit: int = GIVEN_UP) -> Step:
    """Ends waiting tasks whose deadline has passed, where they asked for it."""
    args: dict[str, Argument] = {"limit": limit, "how": ending(shard.terms), "again_ms": AGAIN_MS}
    more, moved = ok("task/expire", "", await shard.run("task/expire", args))
    return Step(int(moved), bool(int(more)))


async def unblock(shard: Shard, *, limit: int = TOLD) -> Step:
    """Goes on telling those who wait for tasks that have ended."""
    args: dict[str, Argument] = {"limit": limit, "tries": TRIES, "events": shard.terms.events}
    (more,) = ok("task/unblock", "", await shard.run("task/unblock", args))
    return Step(0, bool(int(more)))


async def go_on(shard: Shard) -> None:
    """Tells and answers all who wait, where one call could not."""
    while (await unblock(shard)).more:
        continue
    await answer_all(shard)
