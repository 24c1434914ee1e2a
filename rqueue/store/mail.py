"""Mail: lines that scripts put into a box, and the blocking read that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json
from redis.exceptions import RedisError

from rqueue.store.faults import translate
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

ASK_AGAIN_SEC = 0.05


class Mail(NamedTuple):
    """The words of a line; where tasks came whole, their rows and the server's time of sending."""

    words: list[str]
    sent_ms: int = 0
    rows: Sequence[Sequence[str]] = ()


async def read_mail(shard: Shard, box: str, wait_sec: float) -> Mail | None:
    """The next mail in the box, or None when none came in time.

    Not sent again when the connection fails: a line taken by a reply that was lost is gone, so
    the caller takes a new box and looks again at what it waits for.
    """
    client = shard.runner.connection.blocking()
    try:
        found = await stoppable(client.blpop([shard.keys.mail(box)], wait_sec))
    except (RedisError, OSError) as error:
        raise translate(error, "mail") from error
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


async def stoppable(read: Awaitable[Any]) -> Any:
    """What a long read gives; a cancel ends it at once, even one that the driver swallows.

    See `check_cancelled` in connection.py: a read that missed its cancel would block on.
    """
    reading = asyncio.ensure_future(read)
    try:
        await asyncio.wait({reading})
    finally:
        while not reading.done():
            reading.cancel()
            await asyncio.wait({reading}, timeout=ASK_AGAIN_SEC)
    return reading.result()
