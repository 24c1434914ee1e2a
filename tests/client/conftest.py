"""Houses for what does not depend on the kind of server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.house import House, build
from tests.servers import Server


@pytest.fixture
async def alone(valkey: Server) -> AsyncIterator[House]:
    """A queue on the embedded Valkey alone."""
    client, connection = valkey.client(), valkey.connection()
    house = build(connection, client)
    yield house
    await house.queue.aclose()
    await client.aclose()


@pytest.fixture
async def small(valkey: Server) -> AsyncIterator[House]:
    """The same, with little room for a payload."""
    client, connection = valkey.client(), valkey.connection()
    house = build(connection, client, max_payload_bytes=1024)
    yield house
    await house.queue.aclose()
    await client.aclose()
