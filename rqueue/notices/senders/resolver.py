"""Looks up the host of one sink in a separate thread, so that a slow look-up does not delay other
sinks.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor


class Resolver:
    """Calls the system's resolver, once at a time. A look-up cannot be cancelled. In the default
    threads of the event loop, abandoned look-ups would block those of the whole process.
    """

    def __init__(self, sink: str) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"rqueue-{sink}")
        self.under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns the addresses of a host. Concurrent calls for a host share one look-up."""
        asked = host, port
        found = self.under_way.get(asked)
        if found is None:
            loop = asyncio.get_running_loop()
            found = loop.run_in_executor(self.thread, look_up, host, port)
            self.under_way[asked] = found
            found.add_done_callback(lambda _: self.under_way.pop(asked))
        # A caller that is cancelled leaves the look-up to the others.
        return await asyncio.shield(found)


def look_up(host: str, port: int) -> list[str]:
    """Returns the addresses of a host without duplicates."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))
