"""Slow look-ups of a webhook's host: they delay no other sink."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rqueue.notices.notifier import DeliveryCounts
from rqueue.notices.sender import CONCURRENCY
from rqueue.notices.webhook import Resolver
from tests.harness import Harness, opened
from tests.notices.receivers import HOST, web
from tests.notices.test_notifier_web import SECRET, a_notifier, a_sink
from tests.servers import Server

NAME = "hooks.corp"


@pytest.fixture
async def harness(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with opened(valkey) as found:
        yield found


class GatedResolver:
    """A resolver that answers for one host only when the test allows it."""

    def __init__(self) -> None:
        self.look_ups = 0
        self.address: str | None = HOST
        self.known = threading.Event()
        self.real = socket.getaddrinfo

    def look_up(self, host: Any, *how: Any, **more: Any) -> Any:
        if host in (NAME, NAME.encode()):
            self.look_ups += 1
            assert self.known.wait(30)
            if self.address is None:
                raise socket.gaierror(socket.EAI_AGAIN, "nobody knows")
            host = self.address
        return self.real(host, *how, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatedResolver]:
    found = GatedResolver()
    monkeypatch.setattr(socket, "getaddrinfo", found.look_up)
    yield found
    found.known.set()


async def breakers(harness: Harness, number: int = CONCURRENCY) -> None:
    """Creates so many notices."""
    for one in range(number):
        await harness.queue.limits.open_breaker(f"code{one}", 60)


async def test_a_slow_look_up_does_not_block_other_sinks(
    harness: Harness, names: GatedResolver
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    notifier = a_notifier(harness, a_sink(f"https://{NAME}/x", timeout_sec=0.2), {})
    await notifier.tick()
    await breakers(harness)
    assert await notifier.tick() == DeliveryCounts(failed=CONCURRENCY)

    async with asyncio.timeout(10):
        assert await loop.getaddrinfo("127.0.0.1", 80)

    assert names.look_ups == 1


async def test_deliveries_share_a_look_up_and_the_next_ones_have_their_own(
    harness: Harness, names: GatedResolver
) -> None:
    async with web() as receiver:
        url = f"http://{NAME}:{receiver.port}"
        allowed = {"origins": [url], "networks": ["127.0.0.0/8"]}
        notifier = a_notifier(harness, a_sink(f"{url}/x"), allowed)
        await notifier.tick()
        await breakers(harness)
        names.known.set()

        assert await notifier.tick() == DeliveryCounts(delivered=CONCURRENCY)
        look_ups = names.look_ups
        await breakers(harness, 1)
        assert await notifier.tick() == DeliveryCounts(delivered=1)

    assert (look_ups, names.look_ups) == (1, 2)


async def test_the_addresses_are_checked_for_each_delivery(
    harness: Harness, names: GatedResolver
) -> None:
    async with web() as receiver:
        notifier = a_notifier(harness, a_sink(f"https://{NAME}:{receiver.port}/x"), {})
        await notifier.tick()
        await breakers(harness)
        names.known.set()

        assert await notifier.tick() == DeliveryCounts(failed=CONCURRENCY)

    assert (names.look_ups, receiver.posts) == (1, [])


async def test_a_cancelled_delivery_leaves_the_look_up_to_the_others(names: GatedResolver) -> None:
    resolver = Resolver("hook")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await resolver.addresses(NAME, 443)

    other = asyncio.create_task(resolver.addresses(NAME, 443))
    names.known.set()

    assert await other == [HOST]
    assert names.look_ups == 1


async def test_a_failed_look_up_fails_for_all_and_is_repeated(names: GatedResolver) -> None:
    resolver = Resolver("hook")
    names.known.set()
    names.address = None

    look_ups = [resolver.addresses(NAME, 443) for _ in range(2)]
    found = await asyncio.gather(*look_ups, return_exceptions=True)
    names.address = HOST

    assert [type(one) for one in found] == [socket.gaierror, socket.gaierror]
    assert await resolver.addresses(NAME, 443) == [HOST]
