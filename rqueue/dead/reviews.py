"""Reviews: the stored decisions on dead tasks, and their stream in Redis."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from rqueue.store.replies import UNREADABLE, moment, natural, ok, words
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.store.shard import Shard


Resolution = Literal["retry", "modify_and_retry", "wait", "escalate", "cancel", "delete"]
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
# Resolutions that retry a task, and those that end it.
REVIVING: frozenset[str] = frozenset({"retry", "modify_and_retry", "wait"})
ENDING: frozenset[str] = frozenset({"cancel", "delete"})
# Common causes of a task's death; other labels are allowed.
CAUSES = ("invalid_task", "agent_bug", "dependency_down", "needs_human", "other")


@dataclass(frozen=True, slots=True)
class Review:
    """One stored decision on one life of a task.

    `entry` is its id in the stream. `by` is a principal, "" if it is unknown. `diff` is the change
    of the payload, see `rqueue.dead.decide.changes`. `reason`, `error` (shortened) and
    `fingerprint` describe the failure.
    """

    entry: str
    task: TaskId
    life: int
    at: datetime
    resolution: str
    by: str = ""
    cause: str = ""
    note: str = ""
    not_before: datetime | None = None
    diff: tuple[dict[str, Any], ...] = ()
    type: str = ""
    reason: str = ""
    error: str = ""
    fingerprint: str = ""


PAGE = 500
OLDEST, NEWEST = "-", "+"


async def page(shard: Shard, *, after: str = "", limit: int = PAGE) -> list[Review]:
    """Returns a page of reviews, oldest first, after the entry `after`; empty at the end."""
    while True:
        found, last = await read(shard, f"({after}" if after else OLDEST, NEWEST, limit)
        if found or not last:
            return found
        after = last


async def walk(
    shard: Shard, *, since_ms: int | None = None, until_ms: int | None = None
) -> AsyncIterator[Review]:
    """Yields the reviews in a time range, oldest first, `until_ms` excluded."""
    # Stream ids cannot be negative.
    low = OLDEST if since_ms is None else str(max(0, since_ms))
    high = NEWEST if until_ms is None else str(max(0, until_ms - 1))
    while True:
        found, last = await read(shard, low, high, PAGE)
        for review in found:
            yield review
        if not last:
            return
        # Continue after the last entry, even if it could not be decoded.
        low = f"({last}"


async def newest(shard: Shard, limit: int = PAGE) -> list[Review]:
    """Returns the latest reviews, newest first."""
    key = shard.keys.reviews()
    found: Any = await shard.runner.connection.call(
        lambda client: client.xrevrange(key, NEWEST, OLDEST, limit), what="reviews"
    )
    each = [review_in(words(entry), fields) for entry, fields in found]
    return [one for one in each if one is not None]


async def reviewed(shard: Shard, entries: Sequence[str]) -> int:
    """Deletes reviews whose rows are committed to the archive. Returns how many still existed."""
    rows = [(entry,) for entry in entries]
    return int(
        ok(
            "archive/acknowledge_reviews",
            "",
            await shard.run("archive/acknowledge_reviews", {}, rows),
        )[0]
    )


async def read(shard: Shard, low: str, high: str, limit: int) -> tuple[list[Review], str]:
    """Returns a page of reviews and the id of its last entry, "" at the end of the stream."""
    key = shard.keys.reviews()
    found: Any = await shard.runner.connection.call(
        lambda client: client.xrange(key, low, high, count=limit), what="reviews"
    )
    each = [review_in(words(entry), fields) for entry, fields in found]
    return [one for one in each if one is not None], words(found[-1][0]) if found else ""


def review_in(entry: str, fields: dict[bytes, bytes]) -> Review | None:
    """Returns the review in a stream entry; None if the entry is not a valid review."""
    stored = {words(name): words(value) for name, value in fields.items()}
    try:
        not_before = stored.get("not_before")
        return Review(
            entry=entry,
            task=TaskId.from_ulid(stored["task"]),
            life=natural(stored["life"]),
            at=moment(natural(stored["at"])),
            resolution=stored["resolution"],
            not_before=moment(natural(not_before)) if not_before else None,
            diff=tuple(json.loads(stored.get("diff", "[]"))),
            **{name: stored.get(name, "") for name in TEXTS},
        )
    except UNREADABLE:
        return None


TEXTS = ("by", "cause", "note", "type", "reason", "error", "fingerprint")
