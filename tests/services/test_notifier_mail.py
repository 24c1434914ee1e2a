"""E-mails through a real mail server: one a notice, and nothing slips into their headers."""

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
from rqueue.policy.telling import MOST_REFUSALS
from rqueue.services.notifier import Noticed, Notifier
from rqueue.services.sinks import sender_of
from rqueue.settings import Settings
from tests.house import House, opened
from tests.servers import Server
from tests.services.receivers import HOST, mail
from tests.services.test_notifier import due


@pytest.fixture
async def house(valkey: Server) -> AsyncIterator[House]:
    async with opened(valkey) as found:
        yield found


def a_notifier(house: House, port: int, **changes: Any) -> Notifier:
    sink = {
        "kind": "smtp", "name": "post", "host": HOST, "port": port, "security": "none",
        "sender": "queue@example.org", "to": ["ops@example.org", "two@example.org"],
        "timeout_sec": 5,
    }  # fmt: skip
    settings = Settings(name="house", sinks=[{**sink, **changes}])
    (made,) = settings.sinks
    sender = sender_of(made, settings.notice_destinations, clock=SYSTEM)
    return Notifier(house.queue.shard, made, sender, queue="house", clock=SYSTEM, random=Random(7))


async def told(house: House, notifier: Notifier) -> Noticed:
    """What a tick does after a breaker has opened."""
    await notifier.tick()
    await house.queue.open_breaker("code", 60)
    return await notifier.tick()


def read(envelope: Any) -> Any:
    """A letter as its reader sees it."""
    return email.message_from_bytes(envelope.content, policy=default)


async def test_a_notice_is_one_letter_to_all(house: House) -> None:
    async with mail() as post:
        assert await told(house, a_notifier(house, post.port)) == Noticed(delivered=1)

    (envelope,) = post.letters
    (event,) = [one async for one in house.queue.events(wait=0)]
    assert envelope.rcpt_tos == ["ops@example.org", "two@example.org"]
    letter = read(envelope)
    assert letter["Subject"].strip().startswith("warning: [house] Circuit breaker OPEN for code")
    assert letter["From"] == "queue@example.org"
    assert letter["Message-ID"] == f"<house.{letter['X-RQueue-Delivery']}@example.org>"
    assert letter["Date"].datetime == event.at.replace(microsecond=0)
    assert 'event: "breaker.opened"' in letter.get_content()


async def test_one_that_was_refused_is_sent_again_under_the_same_id(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        post.replies = ["451 later"]
        assert await told(house, notifier) == Noticed(failed=1)
        await due(house, "post")
        (notice,) = await house.client.xrange(house.keys.notices())

        assert await notifier.tick() == Noticed(delivered=1)

    (envelope,) = post.letters
    assert read(envelope)["X-RQueue-Delivery"] == f"post-{notice[0].decode()}"


async def test_one_that_the_server_will_never_have_is_given_up(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        await notifier.tick()
        await house.queue.open_breaker("code", 60)
        post.replies = ["554 looks like spam"] * MOST_REFUSALS

        done = []
        for _ in range(MOST_REFUSALS + 1):
            done.append(await notifier.tick())
            await due(house, "post")

    again = [Noticed(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, Noticed(failed=1, given_up=1), Noticed()]
    assert await house.client.xlen(house.keys.notices()) == 0
    assert post.letters == []


async def test_only_replies_about_the_letter_itself_are_refusals(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        await notifier.tick()
        await house.queue.open_breaker("code", 60)

        async def refusals() -> int:
            assert await notifier.tick() == Noticed(failed=1)
            await due(house, "post")
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
        assert await notifier.tick() == Noticed(delivered=1)


async def test_one_recipient_that_is_put_off_is_tried_again_alone(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        post.recipients = {"two@example.org": "450 greylisted"}
        assert await told(house, notifier) == Noticed(failed=1)
        await due(house, "post")
        assert await notifier.tick() == Noticed(failed=1)
        await due(house, "post")
        post.recipients = {}

        assert await notifier.tick() == Noticed(delivered=1)

    assert [one.rcpt_tos for one in post.letters] == [["ops@example.org"], ["two@example.org"]]
    first, second = map(read, post.letters)
    assert first.items() == second.items()
    assert await house.client.xlen(house.keys.notices()) == 0


async def test_one_recipient_that_is_put_off_too_often_is_given_up(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        await notifier.tick()
        await house.queue.open_breaker("code", 60)
        post.recipients = {"two@example.org": "452 mailbox is full"}

        done = []
        for _ in range(MOST_REFUSALS + 1):
            done.append(await notifier.tick())
            await due(house, "post")

    again = [Noticed(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, Noticed(failed=1, given_up=1), Noticed()]
    assert [one.rcpt_tos for one in post.letters] == [["ops@example.org"]]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == (
        "given up after 10 refusals: 1 of 2 recipients put off, SMTP status 452"
    )


async def test_one_recipient_that_is_refused_for_good_is_named_and_left_out(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        post.recipients = {"two@example.org": "550 no such mailbox"}

        assert await told(house, notifier) == Noticed(delivered=1)

    assert [one.rcpt_tos for one in post.letters] == [["ops@example.org"]]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "a recipient was refused for good: SMTP status 550"
    facts = vars(record)
    assert (facts["sink"], facts["notice"]) == ("post", "breaker.opened")
    assert facts["recipient"] == "two@example.org"


async def test_a_recipient_that_was_not_asked_is_tried_again(house: House) -> None:
    three = ["ops@example.org", "two@example.org", "three@example.org"]
    async with mail() as post:
        notifier = a_notifier(house, post.port, to=three)
        post.recipients = dict.fromkeys(three[1:], "450 greylisted")
        assert await told(house, notifier) == Noticed(failed=1)
        await due(house, "post")
        post.recipients = {"two@example.org": "421 too many of them"}
        assert await notifier.tick() == Noticed(failed=1)
        await due(house, "post")
        post.recipients = {}

        assert await notifier.tick() == Noticed(delivered=1)

    assert [one.rcpt_tos for one in post.letters] == [three[:1], three[1:]]


async def test_recipients_that_are_refused_together_are_tried_again_together(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port)
        post.recipients = {"ops@example.org": "450 later", "two@example.org": "550 nobody"}
        assert await told(house, notifier) == Noticed(failed=1)
        await due(house, "post")
        post.recipients = {}

        assert await notifier.tick() == Noticed(delivered=1)

    assert [one.rcpt_tos for one in post.letters] == [["ops@example.org", "two@example.org"]]


async def test_nobody_at_home_is_tried_again(house: House) -> None:
    done = await told(house, a_notifier(house, 1))

    assert done == Noticed(failed=1)
    assert await house.client.xlen(house.keys.notices()) == 1


async def test_a_login_goes_over_tls_alone(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        good = await told(house, a_notifier(house, post.port, **login))
        del login["ca_file"]
        strange = await told(house, a_notifier(house, post.port, **login))
    async with mail() as plain:
        without = await told(house, a_notifier(house, plain.port, **login))

    assert (good.delivered, strange.failed > 0, without.failed > 0) == (1, True, True)
    assert post.logins == [(b"queue", b"sesame")]
    assert plain.letters == []


async def test_nothing_slips_into_the_headers(house: House) -> None:
    async with mail() as post:
        notifier = a_notifier(house, post.port, detail=True)
        await notifier.tick()
        evil = "x\r\nBcc: all@example.org\r\n\r\n<script>"
        await house.client.xadd(
            house.keys.notices(),
            {"event": "worker.blamed", "worker": evil, "detail": evil, "id": "1-1"},
        )

        assert await notifier.tick() == Noticed(delivered=1)

    (envelope,) = post.letters
    letter = read(envelope)
    assert letter["Bcc"] is None
    assert envelope.rcpt_tos == ["ops@example.org", "two@example.org"]
    assert "Bcc: all@example.org" in letter["Subject"]


async def test_one_that_says_nothing_is_given_up_in_time(house: House) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]

        done = await told(house, a_notifier(house, port, timeout_sec=0.3))

    assert done == Noticed(failed=1)
