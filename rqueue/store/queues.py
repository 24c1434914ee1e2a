"""Which queues a server has: found by a key that each of them keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.store.faults import translated
from rqueue.store.keys import Keys
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.connection import Connection

# Keys that one step of SCAN looks at: the server is busy for well below a millisecond.
STEP = 1000


async def find_queues(connection: Connection, namespace: str) -> list[str]:
    """The names of all queues of a namespace, in bounded steps over all keys of the server."""
    pattern = Keys(namespace, "*").lanes()
    before, after = pattern.split("*")
    found: set[str] = set()
    with translated(f"{connection.address} SCAN"):
        steps = connection.client.scan_iter(match=pattern, count=STEP, _type="hash")
        async for key in steps:
            found.add(text(key).removeprefix(before).removesuffix(after))
    return sorted(found)
