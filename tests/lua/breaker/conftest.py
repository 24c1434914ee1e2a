"""Houses whose types have breakers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.house import House, opened
from tests.servers import Server


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """A house whose types have breakers."""
    async with opened(server, breakers={}) as found:
        yield found
