"""Tells a notice to the log of this process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rqueue.model.event import Severity

if TYPE_CHECKING:
    from rqueue.policy.telling import Letter

log = logging.getLogger("rqueue.notices")

LEVELS = {
    Severity.INFO: logging.INFO,
    Severity.NOTICE: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class Journal:
    """One structured line for each notice."""

    async def send(self, letter: Letter) -> None:
        """Writes it."""
        event = letter.event
        fields = {
            "delivery": letter.id,
            "queue": letter.queue,
            "notice": event.name,
            "severity": str(event.severity),
            "subject": event.subject,
            "detail": dict(event.detail),
        }
        log.log(LEVELS[event.severity], "%s", event.summary, extra=fields)
