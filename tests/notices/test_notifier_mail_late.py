"""E-mails through a slow server: one that was given up is not sent afterwards."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue.notices.mail import SmtpSender
from rqueue.notices.notifier import DeliveryCounts, Notifier
from rqueue.notices.sender import CONCURRENCY
from tests.harness import Harness, opened
from tests.notices.receivers import HOST, gated, mail
from tests.notices.test_notifier import due
from tests.notices.test_notifier_mail import a_notifier, tick_after_opening
from tests.servers import Server


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey) as found:
        yield found


async def threads_ended(notifier: Notifier) -> None:
    """Returns when no thread of the sender has work left."""
    assert isinstance(notifier.sender, SmtpSender)
    await asyncio.to_thread(notifier.sender.threads.shutdown)


async def test_no_email_is_sent_after_a_look_up_that_timed_out(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, real = threading.Event(), socket.getaddrinfo

    def slow(host: Any, *how: Any, **more: Any) -> Any:
        if host == "mail.test":
            assert answered.wait(30)
            host = HOST
        return real(host, *how, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with mail() as post:
        notifier = a_notifier(harness, post.port, host="mail.test", timeout_sec=0.3)
        assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)

        answered.set()
        await threads_ended(notifier)
        assert post.emails == []
        await due(harness, "post")
        assert await a_notifier(harness, post.port).tick() == DeliveryCounts(delivered=1)

    assert len(post.emails) == 1


async def test_a_silent_server_keeps_no_thread(harness: Harness) -> None:
    async with mail() as post, gated(post.port) as silent:
        notifier = a_notifier(harness, silent.port, timeout_sec=60)
        await notifier.tick()
        await harness.queue.limits.open_breaker("code", 60)
        ticking = asyncio.create_task(notifier.tick())
        await silent.arrived.wait()

        ticking.cancel()
        await asyncio.wait({ticking})
        await threads_ended(notifier)

    assert post.emails == []


async def test_concurrent_messages_do_not_wait_for_each_other(harness: Harness) -> None:
    async with mail() as post, gated(post.port, opens_at=CONCURRENCY) as slow:
        notifier = a_notifier(harness, slow.port)
        await notifier.tick()
        for number in range(CONCURRENCY):
            await harness.queue.limits.open_breaker(f"code{number}", 60)

        assert await notifier.tick() == DeliveryCounts(delivered=CONCURRENCY)

    assert len(post.emails) == CONCURRENCY
