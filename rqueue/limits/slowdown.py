"""Slow-downs of types and tenants whose service has reported a rate limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.core.counts import answer_all
from rqueue.store.replies import moment, ok, text
from rqueue.store.shard import TRIES

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The slow-down of a type or of a tenant (`key`). While it is `resting`, none of the tasks is
    claimed. From `until` on the rate rises, and from `over_at` on it is unlimited.
    """

    type: str | None
    key: str | None
    resting: bool
    until: datetime
    over_at: datetime


PAGE = 500
KEY = "@"


async def slowdowns(shard: Shard, *, most: int | None = None) -> list[Slowdown]:
    """Returns the active slow-downs, types first, sorted by name. With `most`, stops reading once
    about that many are found.
    """
    found: dict[str, Slowdown] = {}
    cursor, over = "0", False
    while not over:
        args: dict[str, Argument] = {"cursor": cursor, "limit": PAGE}
        cursor_word, now, *rows = ok("slowdown/list", "", await shard.run("slowdown/list", args))
        cursor, now_ms = text(cursor_word), int(now)
        for what, until, span in (map(text, row) for row in rows):
            if now_ms < int(until) + int(span):
                found[what] = slowdown_of(what, int(until), int(span), now_ms)
        over = cursor == "0" or (most is not None and len(found) >= most)
    return [found[what] for what in sorted(found, key=lambda what: (what.startswith(KEY), what))]


async def lift(shard: Shard, *, type: str | None = None, key: str | None = None) -> bool:
    """Ends the slow-down of a type or of a tenant and answers waiting claims. Returns whether there
    was one.
    """
    what = f"{KEY}{key}" if type is None else type
    args: dict[str, Argument] = {
        "what": what,
        "tries": TRIES,
        "events": shard.terms.events,
        **shard.request_args(),
    }
    more, was = ok("slowdown/lift", what, await shard.run("slowdown/lift", args))
    if int(more):
        await answer_all(shard)
    return bool(int(was))


def slowdown_of(what: str, until_ms: int, span_ms: int, now_ms: int) -> Slowdown:
    """Returns the slow-down in one row of the move's reply. The recovery takes as long as the
    rest.
    """
    named = what.startswith(KEY)
    return Slowdown(
        type=None if named else what,
        key=what.removeprefix(KEY) if named else None,
        resting=now_ms < until_ms,
        until=moment(until_ms),
        over_at=moment(until_ms + span_ms),
    )
