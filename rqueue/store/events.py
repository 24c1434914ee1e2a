"""The stream of what happened, read and never changed: a look that is cancelled loses nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from rqueue.model.event import Event, event_of
from rqueue.store.values import words

if TYPE_CHECKING:
    from rqueue.store.connection import Client
    from rqueue.store.shard import Shard

ENTRY = re.compile(r"\d{1,19}-\d{1,19}")
START = "0-0"
PAGE = 500


async def newest(shard: Shard) -> str:
    """The id after which all is new."""
    key = shard.keys.events()
    page: Any = await shard.runner.connection.call(
        lambda client: client.xrevrange(key, "+", "-", 1), what="events"
    )
    return words(page[0][0]) if page else START


async def read_events(shard: Shard, after: str) -> list[Event]:
    """The next page of events after an id."""
    key = shard.keys.events()
    page: Any = await shard.runner.connection.call(
        lambda client: client.xrange(key, f"({after}", "+", PAGE), what="events"
    )
    return [event_of(words(entry), texts(fields)) for entry, fields in page]


async def happened(shard: Shard, after: str, wait_sec: float) -> bool:
    """Whether there is an event after an id, or comes one in time."""
    wait_ms = max(1, round(wait_sec * 1000))
    words = ("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", shard.keys.events(), after)
    return bool(await shard.runner.connection.wait(words, wait_sec, what="events"))


def texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    """An entry's fields."""
    return {words(name): words(value) for name, value in fields.items()}


async def oldest_if_trimmed(shard: Shard, after: str) -> str | None:
    """The oldest event that is kept, where something after `after` may be gone; else None."""
    key = shard.keys.events()
    found: Any = await shard.runner.connection.call(lambda client: ask(client, key), what="events")
    if not found or not found["first-entry"]:
        return None
    first = words(found["first-entry"][0])
    trimmed = int(found["entries-added"]) > int(found["length"])
    return first if trimmed and number(first) > number(after) else None


async def ask(client: Client, key: str) -> Any:
    """What the server knows of a stream; nothing where there is none."""
    try:
        return await client.xinfo_stream(key)
    except ResponseError as error:
        if "no such key" in str(error):
            return None
        raise


def number(entry: str) -> tuple[int, int]:
    """An entry's id as it sorts."""
    ms, _, at = entry.partition("-")
    return int(ms), int(at or 0)
