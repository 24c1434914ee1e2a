"""Sends notices by HTTP: signed webhooks, or messages for Slack."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqueue.core.events import CATALOGUE
from rqueue.errors import ConfigError
from rqueue.notices.destination import refused_addresses, refused_target, target_of
from rqueue.notices.senders.resolver import Resolver
from rqueue.notices.senders.sender import Undelivered
from rqueue.notices.wording import as_json, as_slack, is_refusal, signature

if TYPE_CHECKING:
    from rqueue.clock import Clock
    from rqueue.notices.sink import Destinations, WebSink
    from rqueue.notices.wording import Message

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ANSWER = 65536
OK = range(200, 300)


class WebhookSender:
    """Sends POST requests to one URL. The host is looked up once per request, and the connection
    goes to the checked address. Redirects are not followed, and no proxy is used.
    """

    def __init__(
        self,
        sink: WebSink,
        url: str,
        allowed: Destinations,
        clock: Clock,
        *,
        resolve: Resolve | None = None,
        secret: str | None = None,
    ) -> None:
        self.sink = sink
        self.target = target_of(url)
        self.allowed = allowed
        self.clock = clock
        self.resolve = resolve or Resolver(sink.name).addresses
        self.secret = secret
        self.httpx = import_httpx(sink.name)
        self.context = tls_context(self.httpx, sink)
        if why := refused_target(self.target, allowed):
            raise ConfigError(f"sinks.{sink.name}.url", why)

    async def send(self, message: Message) -> None:
        """Sends a message. Returns when the receiver has accepted it, else raises Undelivered."""
        try:
            async with asyncio.timeout(self.sink.timeout_sec):
                await self.post(message)
        except TimeoutError:
            raise Undelivered(f"no answer within {self.sink.timeout_sec:g} s") from None
        except (OSError, UnicodeError, self.httpx.HTTPError) as error:
            # Only the error's class: texts repeat the address, which may be a secret.
            raise Undelivered(type(error).__name__) from None

    async def post(self, message: Message) -> None:
        """Sends the message to the first of the host's addresses that accepts a connection."""
        addresses = await self.resolve(self.target.host, self.target.port)
        if why := refused_addresses(self.target, addresses, self.allowed):
            raise Undelivered(f"the host {why}")
        body, headers = self.written(message)
        limits = self.httpx.Timeout(None, connect=self.sink.timeout_sec / len(addresses))
        client = self.httpx.AsyncClient(
            verify=self.context, trust_env=False, follow_redirects=False, timeout=limits
        )
        *others, last = addresses
        async with client:
            for address in others:
                with suppress(self.httpx.ConnectError, self.httpx.ConnectTimeout):
                    return await self.post_to(client, address, body, headers)
            return await self.post_to(client, last, body, headers)

    def written(self, message: Message) -> tuple[bytes, dict[str, str]]:
        """Returns the body and the headers of the request."""
        headers = {
            "host": self.target.named,
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": "rqueue",
        }
        if self.secret is None:
            return as_slack(message), headers
        body, timestamp = as_json(message), str(self.clock.now_ms() // 1000)
        return body, headers | {
            "x-rqueue-event": message.event.name if message.event.name in CATALOGUE else "unknown",
            "x-rqueue-delivery": message.id,
            "x-rqueue-timestamp": timestamp,
            "x-rqueue-signature": signature(self.secret, timestamp, body),
        }

    async def post_to(
        self, client: Any, address: str, body: bytes, headers: dict[str, str]
    ) -> None:
        """Sends the message to one address. The certificate must be that of the host, not of the
        address.
        """
        target = self.target
        at = f"[{address}]" if ":" in address else address
        url = f"{target.scheme}://{at}:{target.port}{target.path}"
        asked = client.stream(
            "POST", url, content=body, headers=headers, extensions={"sni_hostname": target.host}
        )
        async with asked as response:
            await self.read(response)

    async def read(self, response: Any) -> None:
        """Reads a response up to its maximum size. Raises Undelivered unless the status is a
        success.
        """
        size = 0
        async for more in response.aiter_raw():
            size += len(more)
            if size > MAX_ANSWER:
                break
        status = response.status_code
        if status not in OK:
            why = f"answered with HTTP status {status}"
            raise Undelivered(why, refused=is_refusal(status))


def tls_context(httpx: Any, sink: WebSink) -> ssl.SSLContext:
    """Returns the TLS context with the trusted certificates. Raises ConfigError if the file
    contains none.
    """
    if sink.ca_file is None:
        context: ssl.SSLContext = httpx.create_ssl_context(trust_env=False)
        return context
    try:
        return ssl.create_default_context(cafile=str(sink.ca_file))
    except OSError:
        rule = f"{sink.ca_file} holds no certificates that can be read"
        raise ConfigError(f"sinks.{sink.name}.ca_file", rule) from None


def import_httpx(sink: str) -> Any:
    """Returns the httpx module. Raises ConfigError if it is not installed."""
    try:
        import httpx  # noqa: PLC0415  # only where there is such a sink
    except ImportError:
        raise ConfigError(f"sinks.{sink}", "needs httpx: install rqueue[notices]") from None
    return httpx
