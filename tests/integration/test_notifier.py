"""`rqueue notifier` as a process: killed at the worst moment, and with a server that goes away."""

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
from tests.client.until import until
from tests.house import NAME, House, opened
from tests.processes import killed
from tests.servers import Server
from tests.services.receivers import Web, web

Process = asyncio.subprocess.Process


@asynccontextmanager
async def notifier(server: Server, receiver: Web, folder: Path) -> AsyncIterator[Process]:
    """A notifier of one webhook; killed in the end where it still runs."""
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


async def served(house: House) -> None:
    """Returns when the sink has its place."""

    async def known() -> bool:
        return bool(await house.client.exists(house.keys.sinks()))

    await until(known)


async def empty(house: House) -> None:
    """Returns when every notice has arrived."""

    async def none() -> bool:
        return bool(await house.client.xlen(house.keys.notices()) == 0)

    await until(none)


async def test_one_that_is_killed_between_delivery_and_settle_is_followed_by_the_same_delivery(
    valkey: Server, tmp_path: Path
) -> None:
    async with opened(valkey) as house, web() as receiver:
        receiver.gate = asyncio.Event()
        async with notifier(valkey, receiver, tmp_path) as process:
            await served(house)
            await house.queue.open_breaker("code", 60)
            await receiver.arrived.wait()
            process.kill()
        receiver.gate.set()
        (notice,) = await house.client.zrange(house.keys.undelivered("hook"), 0, -1)
        await house.client.zadd(house.keys.undelivered("hook"), {notice: 1})

        async with notifier(valkey, receiver, tmp_path) as process:
            await empty(house)
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


async def test_a_server_that_goes_away_and_comes_back_is_served_on(
    folder: Path, tmp_path: Path
) -> None:
    (port,) = servers.free_ports(1)
    first = servers.start_port("valkey", folder, port, "--appendonly", "yes")
    async with web() as receiver, notifier(first, receiver, tmp_path):
        with killed(first.process):
            async with opened(first) as house:
                await served(house)
                await house.queue.open_breaker("code", 60)
                await empty(house)

        second = servers.start_port("valkey", folder, port, "--appendonly", "yes")
        with killed(second.process):
            async with opened(second) as house:
                await house.queue.close_breaker("code")
                await house.queue.open_breaker("code", 60)
                await empty(house)

    deliveries = [post.headers["x-rqueue-delivery"] for post in receiver.posts]
    assert len(set(deliveries)) == len(deliveries) == 2
