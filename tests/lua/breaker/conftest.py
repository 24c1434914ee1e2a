"""Queues whose types have breakers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness import Harness, opened
from tests.servers import Server


@pytest.fixture
async def harness(server: Server) -> AsyncIterator[Harness]:
    """A harness whose types have breakers."""
    async with opened(server, breakers={}) as found:
        yield found
