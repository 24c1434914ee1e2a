"""The connection of a blocking read is cut, or loses its reply: the message arrives all
the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue import Handle
from tests.harness import Harness
from tests.integration.proxy import How, Proxy, Words, proxied_harness
from tests.servers import Server


@pytest.fixture
async def proxied(valkey: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    async with proxied_harness(valkey) as found:
        yield found


def is_blocking(words: Words) -> bool:
    return words[0].upper() == b"BLPOP"


async def test_a_wait_for_a_result_survives_a_cut_connection(
    proxied: tuple[Harness, Proxy],
) -> None:
    harness, proxy = proxied
    lease = await harness.running()
    waiting = asyncio.create_task(
        Handle(lease.id, True, harness.queue._internals).result(timeout=10)
    )
    await proxy.until(is_blocking)

    assert proxy.cut(is_blocking) == 1
    await proxy.until(is_blocking)
    await lease.complete("done")

    assert await waiting == "done"


@pytest.mark.parametrize("how", ["close", "hang"])
async def test_a_lost_mailbox_line_loses_no_task(proxied: tuple[Harness, Proxy], how: How) -> None:
    harness, proxy = proxied
    await harness.claimed()
    waiting = asyncio.create_task(harness.queue.claim(worker="w2", wait=20))
    await proxy.until(is_blocking)

    proxy.lose(is_blocking, how)
    handle = await harness.queue.enqueue("code")

    (lease,) = await waiting
    assert proxy.lost == 1
    assert lease.id == handle.id
    await lease.start()
    await lease.complete()
