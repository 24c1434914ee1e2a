"""A cancel that the driver swallows while it opens a connection still ends the read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rqueue.store.pool import BlockingConnections


class Swallowing:
    """A pool that returns a connection in spite of a cancel, as wait_for before Python 3.12 may."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def get_connection(self) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            transport = Mock(is_closing=Mock(return_value=False))
            return SimpleNamespace(_writer=SimpleNamespace(transport=transport))


async def test_a_cancel_that_was_swallowed_is_not_forgotten() -> None:
    pool = Swallowing()
    client: Any = SimpleNamespace(connection_pool=pool)
    blocking_reads = BlockingConnections(client, reply_sec=60)
    reading = asyncio.create_task(blocking_reads.execute(("BLPOP", "a", 60), 60))
    await pool.asked.wait()

    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 5)
    assert len(blocking_reads.idle) == 1
