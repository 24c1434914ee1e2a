"""A webhook's host that is looked up slowly: nobody else waits for that."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rqueue.services.notifier import Noticed
from rqueue.services.sinks.resolver import Resolver
from rqueue.services.sinks.sending import AT_ONCE
from tests.house import House, opened
from tests.servers import Server
from tests.services.receivers import HOST, web
from tests.services.test_notifier_web import SECRET, a_notifier, a_sink

NAME = "hooks.corp"


@pytest.fixture
async def house(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with opened(valkey) as found:
        yield found


class Names:
    """The system's look-up, which answers for one host when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.address: str | None = HOST
        self.known = threading.Event()
        self.real = socket.getaddrinfo

    def look_up(self, host: Any, *how: Any, **more: Any) -> Any:
        if host in (NAME, NAME.encode()):
            self.asked += 1
            assert self.known.wait(30)
            if self.address is None:
                raise socket.gaierror(socket.EAI_AGAIN, "nobody knows")
            host = self.address
        return self.real(host, *how, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names()
    monkeypatch.setattr(socket, "getaddrinfo", found.look_up)
    yield found
    found.known.set()


async def breakers(house: House, number: int = AT_ONCE) -> None:
    """So many notices."""
    for one in range(number):
        await house.queue.open_breaker(f"code{one}", 60)


async def test_a_slow_look_up_keeps_no_thread_and_no_look_up_of_others(
    house: House, names: Names
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    notifier = a_notifier(house, a_sink(f"https://{NAME}/x", timeout_sec=0.2), {})
    await notifier.tick()
    await breakers(house)
    assert await notifier.tick() == Noticed(failed=AT_ONCE)

    async with asyncio.timeout(10):
        assert await loop.getaddrinfo("127.0.0.1", 80)

    assert names.asked == 1


async def test_deliveries_share_a_look_up_and_the_next_ones_have_their_own(
    house: House, names: Names
) -> None:
    async with web() as receiver:
        url = f"http://{NAME}:{receiver.port}"
        allowed = {"origins": [url], "networks": ["127.0.0.0/8"]}
        notifier = a_notifier(house, a_sink(f"{url}/x"), allowed)
        await notifier.tick()
        await breakers(house)
        names.known.set()

        assert await notifier.tick() == Noticed(delivered=AT_ONCE)
        asked = names.asked
        await breakers(house, 1)
        assert await notifier.tick() == Noticed(delivered=1)

    assert (asked, names.asked) == (1, 2)


async def test_what_the_look_up_found_is_checked_for_each_delivery(
    house: House, names: Names
) -> None:
    async with web() as receiver:
        notifier = a_notifier(house, a_sink(f"https://{NAME}:{receiver.port}/x"), {})
        await notifier.tick()
        await breakers(house)
        names.known.set()

        assert await notifier.tick() == Noticed(failed=AT_ONCE)

    assert (names.asked, receiver.posts) == (1, [])


async def test_one_that_gave_up_leaves_the_look_up_to_the_others(names: Names) -> None:
    resolver = Resolver("hook")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await resolver.addresses(NAME, 443)

    other = asyncio.create_task(resolver.addresses(NAME, 443))
    names.known.set()

    assert await other == [HOST]
    assert names.asked == 1


async def test_a_look_up_that_fails_does_so_for_all_and_is_made_again(names: Names) -> None:
    resolver = Resolver("hook")
    names.known.set()
    names.address = None

    asked = [resolver.addresses(NAME, 443) for _ in range(2)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    names.address = HOST

    assert [type(one) for one in found] == [socket.gaierror, socket.gaierror]
    assert await resolver.addresses(NAME, 443) == [HOST]
