"""Mail: lines that scripts put into a box, and the blocking read that waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json

from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


class Mail(NamedTuple):
    """The words of a line; where tasks came whole, their rows and the server's time of sending."""

    words: list[str]
    sent_ms: int = 0
    rows: Sequence[Sequence[str]] = ()


async def read_mail(shard: Shard, box: str, wait_sec: float, *others: str) -> Mail | None:
    """The next mail in the box, or in one of the others; None when none came in time.

    When the connection fails, the caller takes a new box and looks again at what it waits for.
    """
    keys = [shard.keys.mail(one) for one in (box, *others)]
    words: list[Argument] = ["BLPOP", *keys, wait_sec]
    found = await shard.runner.connection.wait(words, wait_sec, what="mail")
    return None if found is None else opened(found[1])


def opened(mail: bytes) -> Mail:
    """Mail as it was written; tasks that cannot be read are left to be claimed."""
    line, _, whole = mail.partition(b"\n")
    words = text(line).split(" ")
    sent, _, rows = whole.partition(b" ")
    try:
        return Mail(words, int(sent), from_json(rows)) if rows else Mail(words)
    except ValueError:
        return Mail(words)
