"""What all senders share, and the sender for the log of this process."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Protocol

from rqueue.core.events import Severity
from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from rqueue.notices.sink import SmtpSink, WebSink
    from rqueue.notices.wording import Message

log = logging.getLogger("rqueue.notices")

# Messages that one sink is sent concurrently.
CONCURRENCY = 4


class Undelivered(Exception):
    """A message that, as far as is known, has not arrived. The reason contains no secret. `refused`
    is true if the receiver refuses this message, or some of its recipients.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Sender(Protocol):
    """Sends messages to one sink."""

    async def send(self, message: Message) -> None:
        """Sends a message. Returns when it has arrived, else raises Undelivered. May be cancelled
        at any point.
        """
        ...


def tls_context(sink: SmtpSink | WebSink) -> ssl.SSLContext:
    """Returns the TLS context with the trusted certificates. Raises ConfigError if the file
    contains none.
    """
    try:
        return ssl.create_default_context(cafile=sink.ca_file and str(sink.ca_file))
    except OSError:
        rule = f"{sink.ca_file} contains no readable certificates"
        raise ConfigError(f"sinks.{sink.name}.ca_file", rule) from None


LEVELS = {
    Severity.INFO: logging.INFO,
    Severity.NOTICE: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class LogSender:
    """Writes one structured log line for each notice."""

    async def send(self, message: Message) -> None:
        """Logs the notice."""
        event = message.event
        fields = {
            "delivery": message.id,
            "queue": message.queue,
            "notice": event.name,
            "severity": str(event.severity),
            "subject": event.subject,
            "detail": dict(event.detail),
        }
        log.log(LEVELS[event.severity], "%s", event.summary, extra=fields)
