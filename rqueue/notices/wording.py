"""The text of a notice for each kind of sink, and the parts of an event that may be sent to it."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.task.fields import CONTROL

if TYPE_CHECKING:
    from rqueue.core.events import Event

# Characters of a text that a user or an error wrote: by default, and with `detail`.
LINE, WHOLE = 200, 8000
VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Message:
    """The content that a sink receives: an event of a queue, under an id that is the same for each
    attempt.
    """

    id: str
    queue: str
    event: Event

    @property
    def line(self) -> str:
        """The whole message in one line."""
        return cut(f"[{self.queue}] {self.event.summary}", LINE * 2)


def message_of(queue: str, sink: str, notice: str, event: Event, *, whole: bool) -> Message:
    """Returns the message for a sink. Its texts are cut to one line each, or sent whole."""
    most = WHOLE if whole else LINE
    detail = {
        name: value if isinstance(value, int) else shortened(value, most, whole=whole)
        for name, value in event.detail.items()
    }
    document = replace(event, subject=cut(event.subject, LINE * 5), detail=detail)
    return Message(f"{sink}-{notice}", queue, document)


def shortened(text: str, most: int, *, whole: bool) -> str:
    """Returns a text as it may be sent: whole, or its first line."""
    return text[:most] if whole else cut(text.strip().partition("\n")[0], most)


def cut(text: str, most: int) -> str:
    """Returns a text in one line without control characters, cut to `most` characters."""
    line = CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def as_json(message: Message) -> bytes:
    """Returns the body of a webhook, in ASCII."""
    document = {
        "delivery": message.id,
        "queue": message.queue,
        "summary": message.line,
        **message.event.document(),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def as_slack(message: Message) -> bytes:
    """Returns the body for Slack. It is escaped, so that Slack reads no link or mention in it."""
    text = message.line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return json.dumps({"text": f"{message.event.severity}: {text}"}).encode()


def as_text(message: Message) -> str:
    """Returns the body of an e-mail."""
    rows = {"queue": message.queue, **message.event.document(), "delivery": message.id}
    lines = [f"{name}: {json.dumps(value)}" for name, value in rows.items() if value]
    return "\n".join([message.line, "", *lines, ""])


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Returns the signature of a body. It proves that the sender has the secret, and when the body
    was sent.
    """
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"{VERSION}={signed.hexdigest()}"
