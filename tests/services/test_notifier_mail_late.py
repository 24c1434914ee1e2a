"""E-mails through a server that is slow: one that was given up is not sent behind our back."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue.services.notifier import Noticed, Notifier
from rqueue.services.sinks.mail import Mailer
from rqueue.services.sinks.sending import AT_ONCE
from tests.house import House, opened
from tests.servers import Server
from tests.services.receivers import HOST, front, mail
from tests.services.test_notifier import due
from tests.services.test_notifier_mail import a_notifier, told


@pytest.fixture
async def house(valkey: Server) -> AsyncIterator[House]:
    async with opened(valkey) as found:
        yield found


async def threads_ended(notifier: Notifier) -> None:
    """Returns when no thread of its sender has anything left to do."""
    assert isinstance(notifier.sender, Mailer)
    await asyncio.to_thread(notifier.sender.threads.shutdown)


async def test_a_look_up_that_took_too_long_is_not_followed_by_the_letter(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, real = threading.Event(), socket.getaddrinfo

    def slow(host: Any, *how: Any, **more: Any) -> Any:
        if host == "mail.test":
            assert answered.wait(30)
            host = HOST
        return real(host, *how, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with mail() as post:
        notifier = a_notifier(house, post.port, host="mail.test", timeout_sec=0.3)
        assert await told(house, notifier) == Noticed(failed=1)

        answered.set()
        await threads_ended(notifier)
        assert post.letters == []
        await due(house, "post")
        assert await a_notifier(house, post.port).tick() == Noticed(delivered=1)

    assert len(post.letters) == 1


async def test_one_that_says_nothing_keeps_no_thread(house: House) -> None:
    async with mail() as post, front(post.port) as silent:
        notifier = a_notifier(house, silent.port, timeout_sec=60)
        await notifier.tick()
        await house.queue.open_breaker("code", 60)
        ticking = asyncio.create_task(notifier.tick())
        await silent.arrived.wait()

        ticking.cancel()
        await asyncio.wait({ticking})
        await threads_ended(notifier)

    assert post.letters == []


async def test_what_is_sent_at_once_waits_for_no_other(house: House) -> None:
    async with mail() as post, front(post.port, opens_at=AT_ONCE) as slow:
        notifier = a_notifier(house, slow.port)
        await notifier.tick()
        for number in range(AT_ONCE):
            await house.queue.open_breaker(f"code{number}", 60)

        assert await notifier.tick() == Noticed(delivered=AT_ONCE)

    assert len(post.letters) == AT_ONCE
