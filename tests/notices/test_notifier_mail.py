"""E-mails through a real mail server: one per notice, without header injection."""

from __future__ import annotations

import asyncio
import email
import logging
import ssl
from collections.abc import AsyncIterator
from email.policy import default
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme

from rqueue.clock import SYSTEM
from rqueue.notices.notifier import MOST_REFUSALS, DeliveryCounts, Notifier, sender_of
from rqueue.settings.load import Settings
from tests.harness import Harness, opened
from tests.notices.receivers import HOST, mail
from tests.notices.test_notifier import due
from tests.servers import Server


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey) as found:
        yield found


def a_notifier(harness: Harness, port: int, **changes: Any) -> Notifier:
    sink = {
        "kind": "smtp", "name": "post", "host": HOST, "port": port, "security": "none",
        "sender": "queue@example.org", "to": ["ops@example.org", "two@example.org"],
        "timeout_sec": 5,
    }  # fmt: skip
    settings = Settings(name="sales", sinks=[{**sink, **changes}])
    (made,) = settings.sinks
    sender = sender_of(made, settings.notice_destinations, clock=SYSTEM)
    return Notifier(
        harness.queue._internals.shard, made, sender, queue="sales", clock=SYSTEM, random=Random(7)
    )


async def tick_after_opening(harness: Harness, notifier: Notifier) -> DeliveryCounts:
    """The result of a tick after a breaker has opened."""
    await notifier.tick()
    await harness.queue.limits.open_breaker("code", 60)
    return await notifier.tick()


def read(envelope: Any) -> Any:
    """An e-mail as its recipient reads it."""
    return email.message_from_bytes(envelope.content, policy=default)


async def test_a_notice_is_one_email_to_all_recipients(harness: Harness) -> None:
    async with mail() as post:
        assert await tick_after_opening(harness, a_notifier(harness, post.port)) == DeliveryCounts(
            delivered=1
        )

    (envelope,) = post.emails
    (event,) = [one async for one in harness.queue.events(wait=0)]
    assert envelope.rcpt_tos == ["ops@example.org", "two@example.org"]
    message = read(envelope)
    assert message["Subject"].strip().startswith("warning: [sales] Circuit breaker OPEN for code")
    assert message["From"] == "queue@example.org"
    assert message["Message-ID"] == f"<sales.{message['X-RQueue-Delivery']}@example.org>"
    assert message["Date"].datetime == event.at.replace(microsecond=0)
    assert 'event: "breaker.opened"' in message.get_content()


async def test_a_refused_email_is_sent_again_with_the_same_id(harness: Harness) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        post.replies = ["451 later"]
        assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)
        await due(harness, "post")
        (notice,) = await harness.client.xrange(harness.keys.notices())

        assert await notifier.tick() == DeliveryCounts(delivered=1)

    (envelope,) = post.emails
    assert read(envelope)["X-RQueue-Delivery"] == f"post-{notice[0].decode()}"


async def test_an_email_that_the_server_always_refuses_is_given_up(harness: Harness) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        await notifier.tick()
        await harness.queue.limits.open_breaker("code", 60)
        post.replies = ["554 looks like spam"] * MOST_REFUSALS

        done = []
        for _ in range(MOST_REFUSALS + 1):
            done.append(await notifier.tick())
            await due(harness, "post")

    again = [DeliveryCounts(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, DeliveryCounts(failed=1, given_up=1), DeliveryCounts()]
    assert await harness.client.xlen(harness.keys.notices()) == 0
    assert post.emails == []


async def test_only_replies_about_the_email_itself_are_refusals(harness: Harness) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        await notifier.tick()
        await harness.queue.limits.open_breaker("code", 60)

        async def refusals() -> int:
            assert await notifier.tick() == DeliveryCounts(failed=1)
            await due(harness, "post")
            return sum(notifier.refusals.values())

        post.replies = ["451 later", "554 never"]
        assert [await refusals(), await refusals()] == [0, 1]
        post.recipient = "550 no such mailbox"
        assert await refusals() == 1
        post.sender = "550 not from you"
        assert await refusals() == 1
        post.sender = "552 too large"
        assert await refusals() == 2
        post.sender = post.recipient = ""
        assert await notifier.tick() == DeliveryCounts(delivered=1)


async def test_only_a_temporarily_refused_recipient_is_retried(harness: Harness) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        post.recipients = {"two@example.org": "450 greylisted"}
        assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)
        await due(harness, "post")
        assert await notifier.tick() == DeliveryCounts(failed=1)
        await due(harness, "post")
        post.recipients = {}

        assert await notifier.tick() == DeliveryCounts(delivered=1)

    assert [one.rcpt_tos for one in post.emails] == [["ops@example.org"], ["two@example.org"]]
    first, second = map(read, post.emails)
    assert first.items() == second.items()
    assert await harness.client.xlen(harness.keys.notices()) == 0


async def test_a_recipient_that_is_refused_too_often_is_given_up(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        await notifier.tick()
        await harness.queue.limits.open_breaker("code", 60)
        post.recipients = {"two@example.org": "452 mailbox is full"}

        done = []
        for _ in range(MOST_REFUSALS + 1):
            done.append(await notifier.tick())
            await due(harness, "post")

    again = [DeliveryCounts(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, DeliveryCounts(failed=1, given_up=1), DeliveryCounts()]
    assert [one.rcpt_tos for one in post.emails] == [["ops@example.org"]]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == (
        "notice given up after 10 refusals: 1 of 2 recipients refused temporarily, SMTP status 452"
    )


async def test_a_permanently_refused_recipient_is_logged_and_not_retried(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        post.recipients = {"two@example.org": "550 no such mailbox"}

        assert await tick_after_opening(harness, notifier) == DeliveryCounts(delivered=1)

    assert [one.rcpt_tos for one in post.emails] == [["ops@example.org"]]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "recipient refused permanently: SMTP status 550"
    facts = vars(record)
    assert (facts["sink"], facts["notice"]) == ("post", "breaker.opened")
    assert facts["recipient"] == "two@example.org"


async def test_a_recipient_that_was_not_tried_is_retried(harness: Harness) -> None:
    three = ["ops@example.org", "two@example.org", "three@example.org"]
    async with mail() as post:
        notifier = a_notifier(harness, post.port, to=three)
        post.recipients = dict.fromkeys(three[1:], "450 greylisted")
        assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)
        await due(harness, "post")
        post.recipients = {"two@example.org": "421 too many of them"}
        assert await notifier.tick() == DeliveryCounts(failed=1)
        await due(harness, "post")
        post.recipients = {}

        assert await notifier.tick() == DeliveryCounts(delivered=1)

    assert [one.rcpt_tos for one in post.emails] == [three[:1], three[1:]]


async def test_recipients_that_are_refused_together_are_retried_together(
    harness: Harness,
) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port)
        post.recipients = {"ops@example.org": "450 later", "two@example.org": "550 nobody"}
        assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)
        await due(harness, "post")
        post.recipients = {}

        assert await notifier.tick() == DeliveryCounts(delivered=1)

    assert [one.rcpt_tos for one in post.emails] == [["ops@example.org", "two@example.org"]]


async def test_an_unreachable_server_is_retried(harness: Harness) -> None:
    done = await tick_after_opening(harness, a_notifier(harness, 1))

    assert done == DeliveryCounts(failed=1)
    assert await harness.client.xlen(harness.keys.notices()) == 1


async def test_a_login_is_sent_over_tls_only(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "sesame")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    login = {
        "username": "queue", "password_env": "MAIL_PASSWORD", "security": "starttls",
        "ca_file": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    async with mail(context, login=True) as post:
        good = await tick_after_opening(harness, a_notifier(harness, post.port, **login))
        del login["ca_file"]
        strange = await tick_after_opening(harness, a_notifier(harness, post.port, **login))
    async with mail() as plain:
        without = await tick_after_opening(harness, a_notifier(harness, plain.port, **login))

    assert (good.delivered, strange.failed > 0, without.failed > 0) == (1, True, True)
    assert post.logins == [(b"queue", b"sesame")]
    assert plain.emails == []


async def test_texts_cannot_inject_headers(harness: Harness) -> None:
    async with mail() as post:
        notifier = a_notifier(harness, post.port, detail=True)
        await notifier.tick()
        evil = "x\r\nBcc: all@example.org\r\n\r\n<script>"
        await harness.client.xadd(
            harness.keys.notices(),
            {"event": "worker.blamed", "worker": evil, "detail": evil, "id": "1-1"},
        )

        assert await notifier.tick() == DeliveryCounts(delivered=1)

    (envelope,) = post.emails
    message = read(envelope)
    assert message["Bcc"] is None
    assert envelope.rcpt_tos == ["ops@example.org", "two@example.org"]
    assert "Bcc: all@example.org" in message["Subject"]


async def test_a_silent_server_times_out(harness: Harness) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]

        done = await tick_after_opening(harness, a_notifier(harness, port, timeout_sec=0.3))

    assert done == DeliveryCounts(failed=1)
