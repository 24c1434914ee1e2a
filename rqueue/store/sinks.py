"""Notices on their way: each sink's place in the stream, what it was handed, what it has had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.model.event import Event, event_of
from rqueue.store.events import ENTRY
from rqueue.store.replies import ok
from rqueue.store.values import entry_ms, words

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# New notices that one call looks at.
PAGE = 100


@dataclass(frozen=True, slots=True)
class Notice:
    """An event that a sink is to be told, for the `tries`-th time. Its id is its entry's."""

    id: str
    tries: int
    event: Event


@dataclass(frozen=True, slots=True)
class Taken:
    """What a notifier was handed, and whether it should ask for more at once."""

    notices: list[Notice]
    more: bool = False


class Delivery(NamedTuple):
    """A row of lua/sink/settle.lua: a notice, and when it is tried again; "" if it is over."""

    notice: str
    delay: int | str = ""


@dataclass(frozen=True, slots=True)
class SinkState:
    """A sink as the shard knows it: how long ago a notifier served it, how much was taken for it
    and not delivered, and for how long it lacks the oldest notice; None where it lacks none.
    """

    name: str
    silent_ms: int
    open: int
    oldest_ms: int | None


async def serve(shard: Shard, sink: str, wants: Sequence[str], *, lately_ms: int) -> None:
    """Says that a sink is served, and which events it wants: those, and what other notifiers of it
    have wanted so lately.
    """
    args: dict[str, Argument] = {"sink": sink, "wants": " ".join(wants), "lately_ms": lately_ms}
    ok("sink/serve", "", await shard.run("sink/serve", args))


class Asking(NamedTuple):
    """How a notifier asks: under a name for this call alone, for how long they are its own, how
    many at most, and how many may be out altogether.
    """

    taker: str
    lease_ms: int
    limit: int
    window: int


async def take(shard: Shard, sink: str, asking: Asking) -> Taken | None:
    """What a sink is to be told now; None where it has no place in the stream."""
    args: dict[str, Argument] = {"sink": sink, **asking._asdict(), "page": PAGE}
    reply = await shard.run("sink/take", args)
    if words(reply[0]) == "GONE":
        return None
    more, *rows = ok("sink/take", "", reply)
    return Taken([notice_in(row) for row in rows], more=bool(more))


async def settle(shard: Shard, sink: str, taker: str, rows: Sequence[Delivery]) -> int:
    """What became of notices; how many of them this call has settled."""
    args: dict[str, Argument] = {"sink": sink, "taker": taker}
    return int(ok("sink/settle", "", await shard.run("sink/settle", args, rows))[0])


async def forget(shard: Shard, *, silent_ms: int, limit: int = PAGE) -> int:
    """Forgets sinks that nobody has served for so long; how many."""
    args: dict[str, Argument] = {"silent_ms": silent_ms, "limit": limit}
    return int(ok("sink/forget", "", await shard.run("sink/forget", args))[0])


async def list_sinks(shard: Shard) -> list[SinkState]:
    """Every sink, by name."""
    now, *rows = ok("sink/list", "", await shard.run("sink/list", {"page": PAGE}))
    now_ms, found = int(now), []
    for name, served, number, oldest in rows:
        waits = max(0, now_ms - entry_ms(words(oldest))) if oldest else None
        silent_ms = max(0, now_ms - int(float(served)))
        found.append(SinkState(words(name), silent_ms, int(number), waits))
    return sorted(found, key=lambda one: one.name)


def notice_in(row: Sequence[Any]) -> Notice:
    """A notice as the script hands it out; its event has the id that it has among the events."""
    notice, tries, *flat = row
    fields = {words(name): words(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    known = fields.get("id", "")
    event = event_of(known if ENTRY.fullmatch(known) else words(notice), fields)
    return Notice(words(notice), int(tries), event)
