"""Webhooks against real web servers: signed, retried, and never sent to another host."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme

from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError
from rqueue.notices.notifier import DeliveryCounts, Notifier, sender_of
from rqueue.notices.webhook import MAX_ANSWER
from rqueue.settings.load import Settings
from tests.harness import Harness, opened
from tests.notices.receivers import HOST, Web, web
from tests.notices.test_notifier import due
from tests.servers import Server

SECRET = "it is known to two"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    # None of these may be contacted.
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey) as found:
        yield found


@pytest.fixture
async def receiver() -> AsyncIterator[Web]:
    async with web() as found:
        yield found


def a_sink(url: str, **changes: Any) -> dict[str, Any]:
    sink = {"kind": "webhook", "name": "hook", "url": url, "secret_env": "HOOK_SECRET"}
    return {**sink, "timeout_sec": 5, **changes}


def a_notifier(
    harness: Harness,
    sink: dict[str, Any],
    allowed: dict[str, Any] | None = None,
    resolve: Any = None,
) -> Notifier:
    """A notifier for a sink; by default its own origin is allowed."""
    if allowed is None:
        allowed = {"origins": [sink["url"].rpartition("/")[0]]}
    settings = Settings(name="sales", sinks=[sink], notice_destinations=allowed)
    chosen = {"resolve": resolve} if resolve else {}
    (made,) = settings.sinks
    sender = sender_of(made, settings.notice_destinations, clock=SYSTEM, **chosen)
    return Notifier(
        harness.queue._internals.shard, made, sender, queue="sales", clock=SYSTEM, random=Random(7)
    )


def resolver_of(*addresses: str) -> Any:
    """Returns a look-up that returns these addresses and counts its calls."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        resolve.calls.append(host)  # type: ignore[attr-defined]
        return addresses

    resolve.calls = []  # type: ignore[attr-defined]
    return resolve


async def tick_after_opening(harness: Harness, notifier: Notifier) -> DeliveryCounts:
    """The result of a tick after a breaker has opened."""
    await notifier.tick()
    await harness.queue.limits.open_breaker("code", 60)
    return await notifier.tick()


async def test_a_webhook_is_signed_over_its_time_and_body(harness: Harness, receiver: Web) -> None:
    notifier = a_notifier(harness, a_sink(f"{receiver.origin}/hook?to=ops"))

    assert await tick_after_opening(harness, notifier) == DeliveryCounts(delivered=1)

    (post,) = receiver.posts
    stamp, signed = post.headers["x-rqueue-timestamp"], post.headers["x-rqueue-signature"]
    wanted = hmac.new(SECRET.encode(), f"{stamp}.".encode() + post.body, hashlib.sha256)
    assert signed == f"v1={wanted.hexdigest()}"
    assert abs(int(stamp) - SYSTEM.now_ms() // 1000) < 30
    body = json.loads(post.body)
    assert post.path == "/hook?to=ops"
    assert post.headers["host"] == f"{HOST}:{receiver.port}"
    assert post.headers["x-rqueue-delivery"] == body["delivery"]
    assert post.headers["x-rqueue-event"] == body["event"] == "breaker.opened"
    assert (body["subject"], body["severity"]) == ("code", "warning")
    assert body["detail"] == {"for_ms": 60000}


async def test_a_notice_is_retried_after_an_error_and_an_unreachable_server(
    harness: Harness, receiver: Web
) -> None:
    receiver.statuses = [500]
    notifier = a_notifier(harness, a_sink(f"{receiver.origin}/hook"))
    assert await tick_after_opening(harness, notifier) == DeliveryCounts(failed=1)
    unreachable = a_notifier(harness, a_sink(f"http://{HOST}:1/hook"))
    await due(harness, "hook")
    assert await unreachable.tick() == DeliveryCounts(failed=1)
    await due(harness, "hook")

    assert await notifier.tick() == DeliveryCounts(delivered=1)

    first, second = receiver.posts
    assert first.headers["x-rqueue-delivery"] == second.headers["x-rqueue-delivery"]
    assert first.body == second.body


async def test_a_host_that_cannot_be_looked_up_is_retried(harness: Harness, receiver: Web) -> None:
    async def refuses(host: str, port: int) -> list[str]:
        raise UnicodeError("label empty or too long")

    sink = a_sink(f"{receiver.origin}/hook")

    assert await tick_after_opening(
        harness, a_notifier(harness, sink, resolve=refuses)
    ) == DeliveryCounts(failed=1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(harness: Harness, receiver: Web, status: int) -> None:
    async with web() as other:
        receiver.statuses = [status]
        receiver.headers = f"location: {other.origin}/stolen\r\n"

        done = await tick_after_opening(
            harness, a_notifier(harness, a_sink(f"{receiver.origin}/hook"))
        )

        assert done == DeliveryCounts(failed=1)
        assert other.posts == []


async def test_an_answer_without_end_is_cut_off(harness: Harness, receiver: Web) -> None:
    receiver.body = b"x" * (MAX_ANSWER * 40)

    done = await tick_after_opening(harness, a_notifier(harness, a_sink(f"{receiver.origin}/hook")))

    assert done == DeliveryCounts(delivered=1)


async def test_a_request_without_an_answer_times_out(harness: Harness, receiver: Web) -> None:
    receiver.gate = asyncio.Event()

    sink = a_sink(f"{receiver.origin}/hook", timeout_sec=1)
    done = await tick_after_opening(harness, a_notifier(harness, sink))

    assert done == DeliveryCounts(failed=1)
    assert len(receiver.posts) == 1


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.7", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "no address",
    ],
)  # fmt: skip
async def test_a_host_with_a_private_address_is_refused(harness: Harness, address: str) -> None:
    resolve = resolver_of("93.184.216.34", address)
    sink = a_sink("https://hooks.example.org/x")

    done = await tick_after_opening(harness, a_notifier(harness, sink, {}, resolve))

    assert done == DeliveryCounts(failed=1)
    assert resolve.calls == ["hooks.example.org"]


async def test_a_host_that_changes_its_address_is_refused(harness: Harness, receiver: Web) -> None:
    """It is looked up once per delivery: there is no second answer between check and connection."""
    url = f"http://rebound.example.org:{receiver.port}"
    calls = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        calls.append(host)
        return ["93.184.216.34"] if len(calls) == 1 else [HOST]

    sink = a_sink(f"{url}/x", timeout_sec=0.2)
    notifier = a_notifier(harness, sink, {"origins": [url]}, resolve)
    done = [await tick_after_opening(harness, notifier)]
    await due(harness, "hook")
    done.append(await notifier.tick())

    assert done == [DeliveryCounts(failed=1)] * 2
    assert len(calls) == 2
    assert receiver.posts == []


async def test_an_intranet_host_needs_its_network_in_the_settings(
    harness: Harness, receiver: Web
) -> None:
    url = f"http://hooks.corp:{receiver.port}"
    sink, resolve = a_sink(f"{url}/x"), resolver_of(HOST)
    refused = await tick_after_opening(
        harness, a_notifier(harness, sink, {"origins": [url]}, resolve)
    )
    await due(harness, "hook")

    allowed = {"origins": [url], "networks": ["127.0.0.0/8"]}
    done = await a_notifier(harness, sink, allowed, resolve).tick()

    assert (refused, done) == (DeliveryCounts(failed=1), DeliveryCounts(delivered=1))
    assert receiver.posts[0].headers["host"] == f"hooks.corp:{receiver.port}"


@pytest.mark.parametrize("name", ["hooks.corp", "other.corp"])
async def test_the_certificate_must_be_valid_for_the_host_name(
    harness: Harness, tmp_path: Path, name: str
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.corp").configure_cert(context)
    async with web(context) as receiver:
        url = f"https://{name}:{receiver.port}"
        allowed = {"origins": [url], "networks": ["127.0.0.1/32"]}
        sink = a_sink(f"{url}/x", ca_file=str(tmp_path / "ca.pem"))

        done = await tick_after_opening(
            harness, a_notifier(harness, sink, allowed, resolver_of(HOST))
        )

        good = name == "hooks.corp"
        assert done == (DeliveryCounts(delivered=1) if good else DeliveryCounts(failed=1))
        assert len(receiver.posts) == int(good)


async def test_an_untrusted_certificate_is_refused(harness: Harness) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("hooks.corp").configure_cert(context)
    async with web(context) as receiver:
        url = f"https://hooks.corp:{receiver.port}"
        allowed = {"origins": [url], "networks": ["127.0.0.1/32"]}

        done = await tick_after_opening(
            harness, a_notifier(harness, a_sink(f"{url}/x"), allowed, resolver_of(HOST))
        )

        assert (done, receiver.posts) == (DeliveryCounts(failed=1), [])


async def test_the_next_address_of_a_host_is_tried(harness: Harness, receiver: Web) -> None:
    url = f"http://hooks.corp:{receiver.port}"
    allowed = {"origins": [url], "networks": ["127.0.0.0/8"]}

    done = await tick_after_opening(
        harness, a_notifier(harness, a_sink(f"{url}/x"), allowed, resolver_of("127.0.0.9", HOST))
    )

    assert done == DeliveryCounts(delivered=1)


async def test_mentions_are_escaped_for_slack(
    harness: Harness, receiver: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_URL", f"{receiver.origin}/services/T0/secret")
    sink = {"kind": "slack", "name": "hook", "url_env": "SLACK_URL"}
    notifier = a_notifier(harness, sink, {"origins": [receiver.origin]})
    await notifier.tick()
    await harness.client.xadd(
        harness.keys.notices(),
        {"event": "worker.blamed", "worker": "<!channel>", "detail": "a & <b>", "id": "1-1"},
    )

    assert await notifier.tick() == DeliveryCounts(delivered=1)

    (post,) = receiver.posts
    text = "warning: [sales] Worker &lt;!channel&gt; was drained: a &amp; &lt;b&gt;"
    assert json.loads(post.body) == {"text": text}
    assert "x-rqueue-signature" not in post.headers


@pytest.mark.parametrize(
    ("variable", "rule"),
    [("", "the variable SLACK_URL is not set"), ("ftp://x", "contains no URL"),
     ("http://e.org/x", "not https")],
)  # fmt: skip
async def test_the_error_for_a_bad_secret_url_does_not_contain_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, variable: str, rule: str
) -> None:
    monkeypatch.setenv("SLACK_URL", variable)

    with pytest.raises(ConfigError, match=rule) as refused:
        a_notifier(harness, {"kind": "slack", "name": "hook", "url_env": "SLACK_URL"}, {})

    assert not variable or variable not in str(refused.value)


async def test_no_secret_is_in_a_log_line(
    harness: Harness, receiver: Web, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.statuses = [403]
    caplog.set_level(logging.DEBUG, "rqueue")

    await tick_after_opening(
        harness, a_notifier(harness, a_sink(f"{receiver.origin}/token-in-path"))
    )

    lines = [json.dumps(vars(record), default=str) for record in caplog.records]
    lines = [line for line in lines if '"name": "rqueue' in line]
    assert any("HTTP status 403" in line for line in lines)
    assert not any("token-in-path" in line or SECRET in line for line in lines)
