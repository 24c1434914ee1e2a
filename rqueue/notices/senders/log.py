"""Sends notices to the log of this process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rqueue.core.events import Severity

if TYPE_CHECKING:
    from rqueue.notices.wording import Message

log = logging.getLogger("rqueue.notices")

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
