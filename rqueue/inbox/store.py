"""The inbox's stream. Each of its entries is held by at most one reader at a time."""

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
    """A page of entries, and the id of the entry after which new ones follow."""

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
        """Returns a refusal. Its text is cut to the size that is stored."""
        return cls(entry, at, reason, form, int(len(task) > KEPT_BYTES), task[:KEPT_BYTES])


async def receive(
    shard: Shard, reader: str, *, idle_ms: int, limit: int = PAGE, after: str = START
) -> Received:
    """Returns the next entries for a reader: the entries after `after` that it holds already. If
    there are none, those of readers that have been silent for `idle_ms`. If there are none either
    and no other reader holds any, new ones. A repeated call returns the same entries.
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
    """Deletes entries whose tasks are submitted, and stores their refused parts. Returns how many
    entries still existed. All rows of an entry must be in one call.
    """
    args: dict[str, Argument] = {"group": GROUP, "keep": KEPT_REFUSALS}
    return int(ok("inbox/acknowledge", "", await shard.run("inbox/acknowledge", args, rows))[0])


async def arrived(shard: Shard, last: str, wait_sec: float) -> bool:
    """Returns whether there is an entry after `last`, or one arrives in time.

    It takes no entry, so a cancelled wait or a lost reply leaves no entry assigned to this reader.
    """
    wait_ms = max(1, round(wait_sec * 1000))
    words = ("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", shard.keys.inbox(), last)
    return bool(await shard.runner.connection.wait(words, wait_sec, what="inbox"))
