"""How a notice is worded for each kind of sink, and what of an event may leave the queue."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.model.checked import CONTROL

if TYPE_CHECKING:
    from random import Random

    from rqueue.model.event import Event

# Of a text that a person or an error wrote, unless the sink asks for more.
LINE, WHOLE = 200, 8000
FIRST_DELAY_MS, LONGEST_DELAY_MS = 1_000, 300_000
# Answers that speak of the very notice, and how often one of them is taken for a passing fault:
# with the delays between them, for four minutes at least.
REFUSING = frozenset({400, 413, 415, 422})
MOST_REFUSALS = 10
VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Letter:
    """What a sink is told: an event of a queue, under an id that is the same at each try."""

    id: str
    queue: str
    event: Event

    @property
    def line(self) -> str:
        """All of it in one line."""
        return cut(f"[{self.queue}] {self.event.summary}", LINE * 2)


def letter_of(queue: str, sink: str, notice: str, event: Event, *, whole: bool) -> Letter:
    """A notice for a sink: its texts are one line each, or with `whole` all that was said."""
    most = WHOLE if whole else LINE
    detail = {
        name: value if isinstance(value, int) else texted(value, most, whole=whole)
        for name, value in event.detail.items()
    }
    told = replace(event, subject=cut(event.subject, LINE * 5), detail=detail)
    return Letter(f"{sink}-{notice}", queue, told)


def texted(text: str, most: int, *, whole: bool) -> str:
    """A text as it may leave: whole, or its first line."""
    return text[:most] if whole else cut(text.strip().partition("\n")[0], most)


def cut(text: str, most: int) -> str:
    """A text in one line that breaks no header, log or terminal, as far as it fits."""
    line = CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def as_json(letter: Letter) -> bytes:
    """The body of a webhook, in ASCII."""
    told = {
        "delivery": letter.id,
        "queue": letter.queue,
        "summary": letter.line,
        **letter.event.document(),
    }
    return json.dumps(told, separators=(",", ":")).encode()


def as_message(letter: Letter) -> bytes:
    """The body that Slack takes; nothing in it is read as a link or as a mention."""
    text = letter.line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return json.dumps({"text": f"{letter.event.severity}: {text}"}).encode()


def as_text(letter: Letter) -> str:
    """The body of an e-mail."""
    rows = {"queue": letter.queue, **letter.event.document(), "delivery": letter.id}
    lines = [f"{name}: {json.dumps(value)}" for name, value in rows.items() if value]
    return "\n".join([letter.line, "", *lines, ""])


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What shows that a body comes from who knows the secret, and when it was sent."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"{VERSION}={signed.hexdigest()}"


def delay_ms(tries: int, random: Random) -> int:
    """How long to wait after so many tries that failed: twice as long each time, to a bound."""
    longest = min(LONGEST_DELAY_MS, FIRST_DELAY_MS << min(tries - 1, 20))
    return round(longest * random.uniform(0.5, 1.0))


def is_refusal(status: int) -> bool:
    """Whether an answer of HTTP is about what was sent, not about the state of the receiver."""
    return status in REFUSING


def is_given_up(refusals: int) -> bool:
    """Whether a notice that was refused so often is tried no more."""
    return refusals >= MOST_REFUSALS
