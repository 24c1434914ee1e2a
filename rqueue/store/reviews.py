"""What was decided about dead tasks, read from the stream that the scripts write it to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.model.ids import TaskId
from rqueue.model.review import Review
from rqueue.store.replies import ok
from rqueue.store.values import UNREADABLE, moment, natural, words

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

PAGE = 500
OLDEST, NEWEST = "-", "+"


async def page(shard: Shard, *, after: str = "", limit: int = PAGE) -> list[Review]:
    """The oldest reviews, or those behind the entry `after`: so many at most, none at the end."""
    while True:
        found, last = await read(shard, f"({after}" if after else OLDEST, NEWEST, limit)
        if found or not last:
            return found
        after = last


async def walk(
    shard: Shard, *, since_ms: int | None = None, until_ms: int | None = None
) -> AsyncIterator[Review]:
    """The reviews from one time until before another, oldest first."""
    # Times of a stream begin with 1970.
    low = OLDEST if since_ms is None else str(max(0, since_ms))
    high = NEWEST if until_ms is None else str(max(0, until_ms - 1))
    while True:
        found, last = await read(shard, low, high, PAGE)
        for review in found:
            yield review
        if not last:
            return
        # Behind the last one, not behind the last that could be read.
        low = f"({last}"


async def newest(shard: Shard, limit: int = PAGE) -> list[Review]:
    """The last reviews, the newest first."""
    key = shard.keys.reviews()
    found: Any = await shard.runner.connection.call(
        lambda client: client.xrevrange(key, NEWEST, OLDEST, limit), what="reviews"
    )
    each = [review_in(words(entry), fields) for entry, fields in found]
    return [one for one in each if one is not None]


async def reviewed(shard: Shard, entries: Sequence[str]) -> int:
    """Lets go of reviews whose rows are committed to the archive; how many were still there."""
    rows = [(entry,) for entry in entries]
    return int(ok("queue/reviewed", "", await shard.run("queue/reviewed", {}, rows))[0])


async def read(shard: Shard, low: str, high: str, limit: int) -> tuple[list[Review], str]:
    """A page of reviews, and its last entry; "" where nothing is behind it."""
    key = shard.keys.reviews()
    found: Any = await shard.runner.connection.call(
        lambda client: client.xrange(key, low, high, count=limit), what="reviews"
    )
    each = [review_in(words(entry), fields) for entry, fields in found]
    return [one for one in each if one is not None], words(found[-1][0]) if found else ""


def review_in(entry: str, fields: dict[bytes, bytes]) -> Review | None:
    """A review as it is stored; None where it is none: the stream may hold anyone's bytes."""
    said = {words(name): words(value) for name, value in fields.items()}
    try:
        not_before = said.get("not_before")
        return Review(
            entry=entry,
            task=TaskId.from_ulid(said["task"]),
            life=natural(said["life"]),
            at=moment(natural(said["at"])),
            resolution=said["resolution"],
            not_before=moment(natural(not_before)) if not_before else None,
            diff=tuple(json.loads(said.get("diff", "[]"))),
            **{name: said.get(name, "") for name in TEXTS},
        )
    except UNREADABLE:
        return None


TEXTS = ("by", "cause", "note", "type", "reason", "error", "fingerprint")
