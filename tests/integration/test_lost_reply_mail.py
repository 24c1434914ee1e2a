"""The blocking read's line is cut, or loses what it was sent: who waits is told all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue import Handle
from tests.harness import Harness
from tests.integration.proxy import How, Proxy, Words, far_house
from tests.servers import Server


@pytest.fixture
async def far(valkey: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    async with far_house(valkey) as found:
        yield found


def is_blocking(words: Words) -> bool:
    return words[0].upper() == b"BLPOP"


async def test_a_wait_for_a_result_survives_the_cutting_of_its_line(
    far: tuple[Harness, Proxy],
) -> None:
    harness, proxy = far
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
async def test_mail_that_is_lost_on_its_way_loses_no_task(
    far: tuple[Harness, Proxy], how: How
) -> None:
    harness, proxy = far
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
