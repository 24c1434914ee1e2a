"""Mailboxes: lists into which moves write deliveries, and the blocking read that waits for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json

from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


class Delivery(NamedTuple):
    """The words of a delivery; where it carries complete tasks, their rows and the
    server's time of sending.
    """

    words: list[str]
    sent_ms: int = 0
    rows: Sequence[Sequence[str]] = ()


async def read_mailbox(
    shard: Shard, mailbox: str, wait_sec: float, *others: str
) -> Delivery | None:
    """The next delivery in the mailbox, or in one of the others; None when none came in time.

    When the connection fails, the caller takes a new mailbox and reads again what it waits for.
    """
    keys = [shard.keys.mail(one) for one in (mailbox, *others)]
    words: list[Argument] = ["BLPOP", *keys, wait_sec]
    found = await shard.runner.connection.wait(words, wait_sec, what="mail")
    return None if found is None else opened(found[1])


def opened(delivery: bytes) -> Delivery:
    """A delivery as it was written; tasks that cannot be read are left to be claimed."""
    line, _, whole = delivery.partition(b"\n")
    words = text(line).split(" ")
    sent, _, rows = whole.partition(b" ")
    try:
        return Delivery(words, int(sent), from_json(rows)) if rows else Delivery(words)
    except ValueError:
        return Delivery(words)
