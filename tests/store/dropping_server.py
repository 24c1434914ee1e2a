"""A server that drops connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def a_server_that_drops(first: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that closes the connection instead of answering its first INCRs."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while words := await read_command(reader):
            if words[0] != "INCR":
                writer.write(b"+OK\r\n")
                continue
            seen.append(words[0])
            if len(seen) <= first:
                break
            writer.write(b":1\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        server.close()
        await server.wait_closed()


async def read_command(reader: asyncio.StreamReader) -> list[str]:
    head = await reader.readline()
    words = []
    for _ in range(int(head[1:] or 0)):
        length = int((await reader.readline())[1:])
        words.append((await reader.readexactly(length + 2))[:-2].decode())
    return words
