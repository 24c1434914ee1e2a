"""The blocking read's line is cut, or loses what it was sent: who waits is told all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue import Handle
from tests.house import House
from tests.integration.proxy import How, Proxy, Words, far_house
from tests.servers import Server


@pytest.fixture
async def far(valkey: Server) -> AsyncIterator[tuple[House, Proxy]]:
    async with far_house(valkey) as found:
        yield found


def is_blocking(words: Words) -> bool:
    return words[0].upper() == b"BLPOP"


async def test_a_wait_for_a_result_survives_the_cutting_of_its_line(
    far: tuple[House, Proxy],
) -> None:
    house, proxy = far
    lease = await house.running()
    waiting = asyncio.create_task(Handle(lease.id, True, house.queue).result(timeout=10))
    await proxy.until(is_blocking)

    assert proxy.cut(is_blocking) == 1
    await proxy.until(is_blocking)
    await lease.complete("done")

    assert await waiting == "done"


@pytest.mark.parametrize("how", ["close", "hang"])
async def test_mail_that_is_lost_on_its_way_loses_no_task(
    far: tuple[House, Proxy], how: How
) -> None:
    house, proxy = far
    await house.claimed()
    waiting = asyncio.create_task(house.queue.claim(worker="w2", wait=20))
    await proxy.until(is_blocking)

    proxy.lose(is_blocking, how)
    handle = await house.queue.enqueue("code")

    (lease,) = await waiting
    assert proxy.lost == 1
    assert lease.id == handle.id
    await lease.start()
    await lease.complete()
