"""Reads the breakers of a shard, and opens and closes them for an operator. The moves that settle
tasks change them after failures and completions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.core.counts import answer_all
from rqueue.store.replies import moment, ok, text
from rqueue.store.shard import TRIES
from rqueue.task.attempt.breaker import Breaker, BreakerState
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


TIMES = ("last_failure", "opened", "until")


async def breakers(shard: Shard) -> list[Breaker]:
    """Returns the breakers that are not closed or have counted failures, sorted by type."""
    now, *rows = ok("breaker/read", "", await shard.run("breaker/read"))
    return [breaker_of(row, int(now)) for row in rows]


async def open_breaker(shard: Shard, type: str, *, for_ms: int) -> None:
    """Opens the breaker of a type for `for_ms` milliseconds."""
    args: dict[str, Argument] = {
        "type": type,
        "for_ms": for_ms,
        "events": shard.terms.events,
        **shard.request_args(),
    }
    ok("breaker/open", type, await shard.run("breaker/open", args))


async def close_breaker(shard: Shard, type: str) -> None:
    """Closes the breaker of a type and answers waiting claims."""
    args: dict[str, Argument] = {
        "type": type,
        "tries": TRIES,
        "events": shard.terms.events,
        **shard.request_args(),
    }
    (more,) = ok("breaker/close", type, await shard.run("breaker/close", args))
    if int(more):
        await answer_all(shard)


def breaker_of(row: list[bytes], now_ms: int) -> Breaker:
    """Returns the breaker in one row of the move's reply. A breaker whose time has passed is
    half-open, with or without a probing task.
    """
    type, probing, *flat = map(text, row)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    state = BreakerState(fields.get("state", "closed"))
    if state is not BreakerState.CLOSED:
        due = int(fields["until"]) <= now_ms
        state = BreakerState.HALF_OPEN if due else BreakerState.OPEN
    times = {name: moment(int(fields[name])) for name in TIMES if name in fields}
    probe = fields.get("probe", "").split(" ")[0] if int(probing) else ""
    return Breaker(
        type=type,
        state=state,
        failures=int(fields.get("failures", "0")),
        last_failure=times.get("last_failure"),
        opened_at=times.get("opened"),
        half_open_at=times.get("until"),
        probe=TaskId.from_ulid(probe) if probe else None,
    )
