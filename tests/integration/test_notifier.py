"""`rqueue notifier` as a process: killed between delivery and settle, and with a server that
restarts.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import servers
from tests.harness import NAME, Harness, opened
from tests.notices.receivers import Web, web
from tests.processes import killed
from tests.queue.until import until
from tests.servers import Server

Process = asyncio.subprocess.Process


@asynccontextmanager
async def notifier(server: Server, receiver: Web, folder: Path) -> AsyncIterator[Process]:
    """A notifier with one webhook; killed at the end of the block if it still runs."""
    hook = {
        "kind": "webhook", "name": "hook", "url": f"{receiver.origin}/x", "secret_env": "S",
        "timeout_sec": 60,
    }  # fmt: skip
    settings = {
        "RQUEUE_REDIS_URL": server.url,
        "RQUEUE_QUEUE": NAME,
        "RQUEUE_SINKS": json.dumps([hook]),
        "RQUEUE_NOTICE_DESTINATIONS": json.dumps({"origins": [receiver.origin]}),
        "S": "secret",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rqueue", "notifier", cwd=folder, env={**os.environ, **settings}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def served(harness: Harness) -> None:
    """Waits until the sink is registered."""

    async def known() -> bool:
        return bool(await harness.client.exists(harness.keys.sinks()))

    await until(known)


async def empty(harness: Harness) -> None:
    """Waits until every notice has arrived."""

    async def none() -> bool:
        return bool(await harness.client.xlen(harness.keys.notices()) == 0)

    await until(none)


async def test_a_notifier_killed_between_delivery_and_settle_delivers_again(
    valkey: Server, tmp_path: Path
) -> None:
    async with opened(valkey) as harness, web() as receiver:
        receiver.gate = asyncio.Event()
        async with notifier(valkey, receiver, tmp_path) as process:
            await served(harness)
            await harness.queue.limits.open_breaker("code", 60)
            await receiver.arrived.wait()
            process.kill()
        receiver.gate.set()
        (notice,) = await harness.client.zrange(harness.keys.undelivered("hook"), 0, -1)
        await harness.client.zadd(harness.keys.undelivered("hook"), {notice: 1})

        async with notifier(valkey, receiver, tmp_path) as process:
            await empty(harness)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0

        first, again = receiver.posts
        assert first.headers["x-rqueue-delivery"] == f"hook-{notice.decode()}"
        assert again.headers["x-rqueue-delivery"] == first.headers["x-rqueue-delivery"]
        assert again.body == first.body


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: the path of a socket must be short."""
    found = Path(tempfile.mkdtemp(prefix="rqueue-notices-"))
    yield found
    shutil.rmtree(found)


async def test_a_notifier_continues_after_a_server_restart(folder: Path, tmp_path: Path) -> None:
    (port,) = servers.free_ports(1)
    first = servers.start_port("valkey", folder, port, "--appendonly", "yes")
    async with web() as receiver, notifier(first, receiver, tmp_path):
        with killed(first.process):
            async with opened(first) as harness:
                await served(harness)
                await harness.queue.limits.open_breaker("code", 60)
                await empty(harness)

        second = servers.start_port("valkey", folder, port, "--appendonly", "yes")
        with killed(second.process):
            async with opened(second) as harness:
                await harness.queue.limits.close_breaker("code")
                await harness.queue.limits.open_breaker("code", 60)
                await empty(harness)

    deliveries = [post.headers["x-rqueue-delivery"] for post in receiver.posts]
    assert len(set(deliveries)) == len(deliveries) == 2
