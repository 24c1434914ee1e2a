"""Looks up the host of one sink, in a thread of its own: a slow look-up does not delay
other sinks.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor


class Resolver:
    """The system's resolver, called once at a time. A look-up cannot be cancelled; on the loop's
    default threads, abandoned look-ups would block those of the whole process.
    """

    def __init__(self, sink: str) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"rqueue-{sink}")
        self.under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host; concurrent calls share one look-up."""
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
    """The addresses of a host, each once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))
