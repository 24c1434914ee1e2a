"""Mail: lines that scripts put into a box, and the blocking read that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from rqueue.store.faults import translate
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.shard import Shard


async def read_mail(shard: Shard, box: str, wait_sec: float) -> list[str] | None:
    """The words of the next line in the box, or None when none came in time.

    Not sent again when the connection fails: a line taken by a reply that was lost is gone, so
    the caller takes a new box and looks again at what it waits for.
    """
    try:
        found = await shard.runner.connection.blocking().blpop([shard.keys.mail(box)], wait_sec)
    except (RedisError, OSError) as error:
        raise translate(error, "mail") from error
    return None if found is None else text(found[1]).split(" ")
