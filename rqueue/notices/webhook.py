"""Sends notices by HTTP: signed webhooks, or messages for Slack."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqueue.core.events import CATALOGUE
from rqueue.errors import ConfigError
from rqueue.notices.destination import refused_addresses, refused_target, target_of
from rqueue.notices.sender import Undelivered, tls_context
from rqueue.notices.wording import as_json, as_slack, signature

if TYPE_CHECKING:
    import ssl

    from rqueue.clock import Clock
    from rqueue.notices.sink import Destinations, WebSink
    from rqueue.notices.wording import Message

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ANSWER = 65536
OK = range(200, 300)
# Statuses that refuse this notice; others report the state of the receiver.
REFUSING = frozenset({400, 413, 415, 422})


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
        # Without a file, httpx's own certificates, and none from the environment.
        self.context: ssl.SSLContext = (
            tls_context(sink)
            if sink.ca_file is not None
            else self.httpx.create_ssl_context(trust_env=False)
        )
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
        request = client.stream(
            "POST", url, content=body, headers=headers, extensions={"sni_hostname": target.host}
        )
        async with request as response:
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


def is_refusal(status: int) -> bool:
    """Returns whether an HTTP status refuses this notice. Other statuses report the state of the
    receiver.
    """
    return status in REFUSING


def import_httpx(sink: str) -> Any:
    """Returns the httpx module. Raises ConfigError if it is not installed."""
    try:
        import httpx  # noqa: PLC0415  # only where there is such a sink
    except ImportError:
        raise ConfigError(f"sinks.{sink}", "needs httpx: install rqueue[notices]") from None
    return httpx


class Resolver:
    """Calls the system's resolver, once at a time. A look-up cannot be cancelled. In the default
    threads of the event loop, abandoned look-ups would block those of the whole process.
    """

    def __init__(self, sink: str) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"rqueue-{sink}")
        self.under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns the addresses of a host. Concurrent calls for a host share one look-up."""
        key = host, port
        found = self.under_way.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            found = loop.run_in_executor(self.thread, look_up, host, port)
            self.under_way[key] = found
            found.add_done_callback(lambda _: self.under_way.pop(key))
        # A caller that is cancelled leaves the look-up to the others.
        return await asyncio.shield(found)


def look_up(host: str, port: int) -> list[str]:
    """Returns the addresses of a host without duplicates."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))
