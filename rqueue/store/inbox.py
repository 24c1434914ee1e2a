"""The inbox: entries that producers of any language wrote, handed to one reader at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rqueue.model.forms.document import MAX_DOCUMENT_BYTES
from rqueue.model.inbox import Entry
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

GROUP = "inbox"
START = "0-0"
# A page of the largest documents is what the reader must have room for.
PAGE = 64
KEPT_REFUSALS = 10_000
KEPT_BYTES = 4096


class Received(NamedTuple):
    """A page of entries, and the entry after which there is something new to ask for."""

    entries: list[Entry]
    last: str


class Refusal(NamedTuple):
    """A row of lua/queue/received.lua: an entry that goes, and one thing refused of it."""

    entry: str
    at: str = ""
    reason: str = ""
    form: str = ""
    cut: int = 0
    task: bytes = b""

    @classmethod
    def of(cls, entry: str, at: str, reason: str, *, form: str, task: bytes) -> Refusal:
        """A refusal with as much of the text as is kept."""
        return cls(entry, at, reason, form, int(len(task) > KEPT_BYTES), task[:KEPT_BYTES])


async def receive(
    shard: Shard, reader: str, *, idle_ms: int, limit: int = PAGE, after: str = START
) -> Received:
    """What a reader is to deal with next: what it holds after an entry, else what readers hold that
    have been silent for `idle_ms`, else, if nobody else holds any, what is new. Sent again it gives
    the same.
    """
    args: dict[str, Argument] = {
        "group": GROUP,
        "reader": reader,
        "idle_ms": idle_ms,
        "limit": limit,
        "max_bytes": MAX_DOCUMENT_BYTES,
        "after": after,
    }
    last, *rows = ok("queue/receive", "", await shard.run("queue/receive", args))
    return Received([Entry(text(entry), words) for entry, *words in rows], text(last))


async def received(shard: Shard, rows: Iterable[Refusal]) -> int:
    """Lets go of entries whose tasks are in the queue, and keeps what was refused of them; how
    many there still were. All rows of an entry belong into one call.
    """
    args: dict[str, Argument] = {"group": GROUP, "keep": KEPT_REFUSALS}
    return int(ok("queue/received", "", await shard.run("queue/received", args, rows))[0])


async def arrived(shard: Shard, last: str, wait_sec: float) -> bool:
    """Whether there is an entry after `last`, or comes one in time.

    It looks and takes nothing: a wait that is cancelled or whose reply is lost strands no entry.
    """
    wait_ms = max(1, round(wait_sec * 1000))
    words = ("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", shard.keys.inbox(), last)
    return bool(await shard.runner.connection.wait(words, wait_sec, what="inbox"))
