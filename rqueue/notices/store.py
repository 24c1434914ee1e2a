"""Notices in Redis: the position of each sink in the stream, the notices that are taken for it, and
the outcome of deliveries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.core.events import ENTRY, Event, event_of
from rqueue.store.replies import entry_ms, ok, words

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard

# New notices that one call reads.
PAGE = 100


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for a sink, with the number of this attempt. `id` is that of its stream entry."""

    id: str
    tries: int
    event: Event


@dataclass(frozen=True, slots=True)
class NoticeBatch:
    """Notices that a notifier has taken, and whether more are due."""

    notices: list[Notice]
    more: bool = False


class NoticeOutcome(NamedTuple):
    """A row of lua/notice/settle.lua: a notice, and its delay until it is retried. "" means that it
    is finished.
    """

    notice: str
    delay: int | str = ""


@dataclass(frozen=True, slots=True)
class SinkState:
    """A sink in Redis: how long ago a notifier served it, how many notices are taken and not
    delivered, and the age of the oldest notice that is not delivered; None if all are.
    """

    name: str
    silent_ms: int
    open: int
    oldest_ms: int | None


async def serve(shard: Shard, sink: str, wants: Sequence[str], *, lately_ms: int) -> None:
    """Registers that a sink is served, and which events it wants. Events that other notifiers of
    the sink wanted in the last `lately_ms` are added.
    """
    args: dict[str, Argument] = {"sink": sink, "wants": " ".join(wants), "lately_ms": lately_ms}
    ok("notice/serve", "", await shard.run("notice/serve", args))


class TakeRequest(NamedTuple):
    """A request for notices: a name for this call only, how long the notices are leased, how many
    at most, and how many may be taken by all calls together.
    """

    taker: str
    lease_ms: int
    limit: int
    window: int


async def take(shard: Shard, sink: str, request: TakeRequest) -> NoticeBatch | None:
    """Leases and returns the notices that are due for a sink; None if it has no position in the
    stream.
    """
    args: dict[str, Argument] = {"sink": sink, **request._asdict(), "page": PAGE}
    reply = await shard.run("notice/take", args)
    if words(reply[0]) == "GONE":
        return None
    more, *rows = ok("notice/take", "", reply)
    return NoticeBatch([notice_in(row) for row in rows], more=bool(more))


async def settle(shard: Shard, sink: str, taker: str, rows: Sequence[NoticeOutcome]) -> int:
    """Records the outcome of notices. Returns how many of them this call settled."""
    args: dict[str, Argument] = {"sink": sink, "taker": taker}
    return int(ok("notice/settle", "", await shard.run("notice/settle", args, rows))[0])


async def forget(shard: Shard, *, silent_ms: int, limit: int = PAGE) -> int:
    """Deletes sinks that no notifier has served for `silent_ms`. Returns how many."""
    args: dict[str, Argument] = {"silent_ms": silent_ms, "limit": limit}
    return int(ok("notice/forget", "", await shard.run("notice/forget", args))[0])


async def list_sinks(shard: Shard) -> list[SinkState]:
    """Returns every sink, sorted by name."""
    now, *rows = ok("notice/list", "", await shard.run("notice/list", {"page": PAGE}))
    now_ms, found = int(now), []
    for name, served, number, oldest in rows:
        waits = max(0, now_ms - entry_ms(words(oldest))) if oldest else None
        silent_ms = max(0, now_ms - int(float(served)))
        found.append(SinkState(words(name), silent_ms, int(number), waits))
    return sorted(found, key=lambda one: one.name)


def notice_in(row: Sequence[Any]) -> Notice:
    """Returns the notice in a row of the reply. Its event has the id of the events stream."""
    notice, tries, *flat = row
    fields = {words(name): words(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    known = fields.get("id", "")
    event = event_of(known if ENTRY.fullmatch(known) else words(notice), fields)
    return Notice(words(notice), int(tries), event)


class Notices:
    """`queue.notices`."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def sinks(self) -> list[SinkState]:
        """Returns the sinks that a notifier serves or has served recently, sorted by name, each
        with the notices that it has not received yet.
        """
        return await list_sinks(self._shard)
