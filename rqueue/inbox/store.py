"""The inbox's stream: entries, held by one reader at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rqueue.inbox.entry import Entry
from rqueue.store.replies import ok, text
from rqueue.task.forms.document import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard

GROUP = "inbox"
START = "0-0"
# The reader must have room for a page of the largest documents.
PAGE = 64
KEPT_REFUSALS = 10_000
KEPT_BYTES = 4096


class Received(NamedTuple):
    """A page of entries, and the entry after which new ones follow."""

    entries: list[Entry]
    last: str


class Refusal(NamedTuple):
    """A row of lua/inbox/acknowledge.lua: an entry to delete, and one refused part of it."""

    entry: str
    at: str = ""
    reason: str = ""
    form: str = ""
    cut: int = 0
    task: bytes = b""

    @classmethod
    def of(cls, entry: str, at: str, reason: str, *, form: str, task: bytes) -> Refusal:
        """A refusal with its text cut to what is stored."""
        return cls(entry, at, reason, form, int(len(task) > KEPT_BYTES), task[:KEPT_BYTES])


async def receive(
    shard: Shard, reader: str, *, idle_ms: int, limit: int = PAGE, after: str = START
) -> Received:
    """The next entries for a reader: those it holds after an entry, else those of readers that have
    been silent for `idle_ms`, else new ones, if no other reader holds any. Repeated, the call
    returns the same.
    """
    args: dict[str, Argument] = {
        "group": GROUP,
        "reader": reader,
        "idle_ms": idle_ms,
        "limit": limit,
        "max_bytes": MAX_DOCUMENT_BYTES,
        "after": after,
    }
    last, *rows = ok("inbox/receive", "", await shard.run("inbox/receive", args))
    return Received([Entry(text(entry), words) for entry, *words in rows], text(last))


async def received(shard: Shard, rows: Iterable[Refusal]) -> int:
    """Deletes entries whose tasks are submitted, and stores what was refused of them; returns how
    many entries were still there. All rows of an entry belong into one call.
    """
    args: dict[str, Argument] = {"group": GROUP, "keep": KEPT_REFUSALS}
    return int(ok("inbox/acknowledge", "", await shard.run("inbox/acknowledge", args, rows))[0])


async def arrived(shard: Shard, last: str, wait_sec: float) -> bool:
    """Whether there is an entry after `last`, or one comes in time.

    It takes nothing: a wait that is cancelled or whose reply is lost strands no entry.
    """
    wait_ms = max(1, round(wait_sec * 1000))
    words = ("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", shard.keys.inbox(), last)
    return bool(await shard.runner.connection.wait(words, wait_sec, what="inbox"))
