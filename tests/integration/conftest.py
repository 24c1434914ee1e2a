"""Fixtures of the fault tests: a queue on a server, and worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness import build
from tests.integration.processes import SETTINGS, Env, Fleet
from tests.servers import Server


@asynccontextmanager
async def env_on(server: Server, folder: Path) -> AsyncIterator[Env]:
    """An environment whose processes end with the test."""
    fleet = Fleet(server.url, folder)
    client, connection = server.client(), server.connection()
    harness = build(connection, client, **SETTINGS)
    try:
        yield Env(harness, fleet)
    finally:
        fleet.close()
        await harness.queue.aclose()
        await connection.aclose()
        await client.aclose()


@pytest.fixture
async def env(valkey: Server, tmp_path: Path) -> AsyncIterator[Env]:
    """An environment on the embedded Valkey."""
    async with env_on(valkey, tmp_path) as found:
        yield found


@pytest.fixture(params=["valkey", "redis7"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each chosen server that can be started alone; by default the embedded Valkey."""
    chosen = request.config.getoption("--servers") or "valkey"
    if request.param not in chosen.split(","):
        pytest.skip("not among --servers")
    return str(request.param)


@pytest.fixture
async def each_env(
    running: Callable[[str], Server], kind: str, tmp_path: Path
) -> AsyncIterator[Env]:
    """An environment on each of these servers."""
    server = running(kind)
    server.flush()
    async with env_on(server, tmp_path) as found:
        yield found
