"""Calls end within their timeout when the server is unavailable, silent or stopped."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rqueue import Queue
from rqueue.errors import StoreUnavailable
from rqueue.store.connection import Connection, connect
from tests import servers
from tests.servers import Server

TIMEOUT_SEC = 0.8
# Additional time on a busy machine.
SLACK_SEC = 0.6


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test only, so that it may be stopped."""
    (port,) = servers.free_ports(1)
    server = servers.start_port("valkey", tmp_path, port)
    yield server
    server.stop()


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server's process stopped by SIGSTOP."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


async def seconds_until_refused(call: Any) -> float:
    """How long a call took to raise StoreUnavailable."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(StoreUnavailable):
        await call
    return loop.time() - began


def is_in_time(taken: float) -> bool:
    return TIMEOUT_SEC / 2 <= taken <= TIMEOUT_SEC + SLACK_SEC


def calls_on(connection: Connection) -> list[Any]:
    """Every way to send a call."""
    return [
        connection.execute_one(["PING"], what="one"),
        connection.execute([["PING"], ["PING"]], what="two"),
        connection.call(lambda client: client.execute_command("PING")),
    ]


@pytest.mark.alone
async def test_calls_to_a_silent_server_end_in_time(silent: str) -> None:
    connection = connect(silent, timeout_sec=TIMEOUT_SEC)

    async with asyncio.timeout(10):
        taken = await asyncio.gather(*map(seconds_until_refused, calls_on(connection)))

    assert all(map(is_in_time, taken)), taken
    await connection.aclose()


@pytest.mark.alone
async def test_calls_to_a_silent_cluster_end_in_time(silent: str) -> None:
    connection = connect(silent.replace("redis://", "redis+cluster://"), timeout_sec=TIMEOUT_SEC)

    async with asyncio.timeout(10):
        taken = await asyncio.gather(*map(seconds_until_refused, calls_on(connection)))

    assert all(map(is_in_time, taken)), taken
    await connection.aclose()


async def test_a_silent_sentinel_is_skipped(redis7: Server, silent: str, tmp_path: Path) -> None:
    port, watch = servers.free_ports(2)
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main 127.0.0.1 {port} 1\n")
    master = servers.start_port("redis7", tmp_path, port)
    sentinel = servers.start_port("redis7", tmp_path, watch, str(config), "--sentinel")
    silent_address = silent.removeprefix("redis://")
    connection = connect(f"redis+sentinel://{silent_address},127.0.0.1:{watch}/main", timeout_sec=4)
    try:
        assert await connection.execute_one(["PING"], what="one") == b"PONG"
    finally:
        await connection.aclose()
        sentinel.stop()
        master.stop()


@pytest.mark.alone
async def test_concurrent_calls_do_not_wait_for_each_other(silent: str) -> None:
    connection = connect(silent, timeout_sec=TIMEOUT_SEC)
    calls = [connection.execute_one(["PING"], what="one") for _ in range(100)]

    async with asyncio.timeout(10):
        taken = await asyncio.gather(*map(seconds_until_refused, calls))

    assert all(map(is_in_time, taken)), max(taken)
    await connection.aclose()


@pytest.mark.alone
async def test_many_enqueues_to_a_silent_server_end_in_time(silent: str) -> None:
    queue = Queue("silent", url=silent, call_timeout_sec=TIMEOUT_SEC)
    calls = [queue.enqueue("code", n) for n in range(100)]

    async with asyncio.timeout(10):
        taken = await asyncio.gather(*map(seconds_until_refused, calls))

    assert all(map(is_in_time, taken)), max(taken)
    await queue.aclose()


@pytest.mark.alone
async def test_calls_to_a_stopped_server_end_in_time_and_succeed_after_it_continues(
    own_server: Server,
) -> None:
    queue = Queue("stopped", url=own_server.url, call_timeout_sec=TIMEOUT_SEC)
    await queue.enqueue("code")

    with stopped(own_server):
        calls = [queue.enqueue("code", n) for n in range(20)]
        async with asyncio.timeout(10):
            taken = await asyncio.gather(*map(seconds_until_refused, calls))

    assert all(map(is_in_time, taken)), max(taken)
    assert (await queue.enqueue("code")).created
    await queue.aclose()


async def test_a_call_that_outlasts_a_short_stop_is_answered(own_server: Server) -> None:
    connection = connect(own_server.url, timeout_sec=10)
    await connection.execute_one(["PING"], what="one")

    with stopped(own_server):
        call = asyncio.create_task(connection.execute_one(["PING"], what="one"))
        await asyncio.sleep(0)

    assert await call == b"PONG"
    await connection.aclose()


async def test_a_batch_may_exceed_the_timeout_while_replies_arrive() -> None:
    # Together they take longer than the timeout; each has half of it, also on a busy machine.
    async with a_server(each_sec=0.05) as url:
        connection = connect(url, timeout_sec=2)

        replies = await connection.execute([["INCR", "n"]] * 50, what="many")

        assert replies == [b"OK"] * 50
        await connection.aclose()


async def test_an_interrupted_batch_raises_one_error() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    async with a_server(last=30) as url:
        connection = connect(url, timeout_sec=TIMEOUT_SEC)

        with pytest.raises(StoreUnavailable):
            await connection.execute([["INCR", "n"]] * 50, what="many")

        await connection.aclose()
    gc.collect()
    assert complaints == []


@asynccontextmanager
async def a_server(*, each_sec: float = 0, last: int = 1000) -> AsyncIterator[str]:
    """A server that delays its reply to each INCR, and closes the connection after
    `last` of them.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = 0
        with closing(writer):
            while received < last and (head := await reader.readline()):
                words = [await read_word(reader) for _ in range(int(head[1:]))]
                if words[0] == b"INCR":
                    received += 1
                    await asyncio.sleep(each_sec)
                writer.write(b"+PONG\r\n" if words[0] == b"PING" else b"+OK\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def read_word(reader: asyncio.StreamReader) -> bytes:
    length = int((await reader.readline())[1:])
    return (await reader.readexactly(length + 2))[:-2]
