"""Houses for what does not depend on the kind of server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.house import House, opened
from tests.servers import Server


@pytest.fixture
async def small(valkey: Server) -> AsyncIterator[House]:
    """A queue on the embedded Valkey alone, with little room for a payload."""
    async with opened(valkey, max_payload_bytes=1024) as house:
        yield house
